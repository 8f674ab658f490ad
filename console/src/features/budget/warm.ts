/** Hours and other small amounts with at most two decimals, in the reader's spelling. */
export function hours(value: number, locale: string): string {
  return new Intl.NumberFormat(locale, { maximumFractionDigits: 2 }).format(value);
}
