import { clock, mib, ms, span } from '@/app/format';

/** One fact as shown: the server's key and the value in words. */
export interface Fact {
  key: string;
  text: string;
  /** Whether it is a plain value that fits on one line. */
  short: boolean;
}

const SHORT = 40;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/;

/** The facts of a step in the order in which the server sent them; nothing is dropped but what is not there. */
export function readFacts(facts: Record<string, unknown>): Fact[] {
  return Object.entries(facts)
    .filter(([, value]) => value !== null && value !== undefined && value !== '')
    .map(([key, value]) => {
      const text = words(key, value);
      const plain = typeof value !== 'object' || Array.isArray(value);
      return { key, text, short: plain && text.length <= SHORT && !text.includes('\n') };
    });
}

function words(key: string, value: unknown): string {
  if (typeof value === 'number') return figure(key, value);
  if (typeof value === 'boolean') return value ? '✓' : '✗';
  if (typeof value === 'string') return TIME.test(value) ? clock(value) : value;
  if (Array.isArray(value) && value.every((v) => typeof v !== 'object')) return value.join(', ');
  return JSON.stringify(value, null, 2);
}

function figure(key: string, value: number): string {
  if (/^mib$|MiB/.test(key)) return mib(value);
  if (/Milliseconds$/.test(key)) return ms(value);
  if (/Seconds$/.test(key)) return value < 10 ? `${Number(value.toFixed(3))} s` : span(value);
  return String(value);
}

/** A key that has no translation yet, as words: objectUid becomes "object uid". */
export const spaced = (key: string) =>
  key
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/_/g, ' ')
    .toLowerCase();
