// Arithmetic of charts over time: data in, positions in percent out.

/** From `at` on (ms since 1970, or any other running figure) the value is `value`. */
export interface Step {
  at: number;
  value: number;
}

export interface Series {
  key: string;
  label: string;
  steps: readonly Step[];
  /** Which of the categorical colours; 0 is the ink. */
  colour: number;
  dashed?: boolean;
}

export interface Frame {
  from: number;
  to: number;
  /** Values run from 0 to here. */
  top: number;
}

/** The smallest round figure that is not below the largest value; at least 1. */
export function roundTop(values: Iterable<number>): number {
  let most = 0;
  for (const v of values) if (v > most) most = v;
  if (most <= 1) return 1;
  const unit = 10 ** Math.floor(Math.log10(most));
  const round = [1, 2, 5, 10].find((n) => n * unit >= most) ?? 10;
  return round * unit;
}

/** Evenly spaced ticks from 0 to the top, in whole numbers where the top is one. */
export function ticks(top: number): number[] {
  const parts = [4, 5, 3, 2, 1].find((n) => !Number.isInteger(top) || top % n === 0) ?? 1;
  return Array.from({ length: parts + 1 }, (_, n) => (top * n) / parts);
}

export const xOf = (at: number, { from, to }: Frame) =>
  to > from ? Math.min(100, Math.max(0, ((at - from) / (to - from)) * 100)) : 0;
export const yOf = (value: number, { top }: Frame) =>
  100 - Math.min(100, Math.max(0, (value / top) * 100));

const n = (v: number) => String(Number(v.toFixed(2)));

/** The path of a staircase over the frame, in a box of 100 by 100. */
export function stairs(steps: readonly Step[], frame: Frame): string {
  let path = '';
  let y = '';
  for (const step of steps) {
    if (step.at > frame.to) break;
    const next = n(yOf(step.value, frame));
    const x = n(xOf(step.at, frame));
    path = path === '' ? `M${x} ${next}` : `${path}H${x}`;
    if (y !== '' && y !== next) path += `V${next}`;
    y = next;
  }
  return path === '' ? '' : `${path}H100`;
}

/** The value that holds at a moment: that of the last step before it. */
export function valueAt(steps: readonly Step[], at: number): number | undefined {
  let low = 0;
  let high = steps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((steps[middle]?.at ?? Infinity) <= at) low = middle + 1;
    else high = middle;
  }
  return steps[low - 1]?.value;
}

/** Least, most and last value within a frame. */
export function extent(steps: readonly Step[], { from, to }: Frame) {
  const within = steps.filter((s) => s.at > from && s.at <= to).map((s) => s.value);
  const first = valueAt(steps, from);
  if (first !== undefined) within.unshift(first);
  const last = within.at(-1);
  return last === undefined
    ? undefined
    : { least: Math.min(...within), most: Math.max(...within), last };
}
