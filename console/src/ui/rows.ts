/** The rows of a long list that are in view, with a margin on both sides. */
export interface Window {
  first: number;
  /** One past the last row. */
  end: number;
}

/** Rows on both sides of those in view, once there is time for them. */
export const MARGIN = 12;

/** Which rows to draw; all of them while the list is short. */
export function windowOf(
  rows: number,
  rowHeight: number,
  scrollTop: number,
  viewHeight: number,
  wholeUpTo: number,
  margin = MARGIN,
): Window {
  if (rows <= wholeUpTo) return { first: 0, end: rows };
  const top = Math.max(0, Math.floor(scrollTop / rowHeight) - margin);
  const first = Math.min(top, Math.max(0, rows - 1));
  const end = Math.min(rows, Math.ceil((scrollTop + viewHeight) / rowHeight) + margin);
  return { first, end: Math.max(first, end) };
}

/** Whether nothing of what is drawn stays: a jump, after which every row is made anew. */
export const isJump = (drawn: Window, next: Window) =>
  next.first >= drawn.end || next.end <= drawn.first;

export interface Sort {
  key: string;
  descending: boolean;
}

/** The sort after a click on a column head: first up, then down, then as it came. */
export function nextSort(current: Sort | null, key: string): Sort | null {
  if (current?.key !== key) return { key, descending: false };
  return current.descending ? null : { key, descending: true };
}

/** A sorted copy; equal rows keep their order. */
export function sorted<T>(
  rows: readonly T[],
  compare: (a: T, b: T) => number,
  descending: boolean,
): T[] {
  const sign = descending ? -1 : 1;
  return rows
    .map((row, at) => ({ row, at }))
    .sort((a, b) => sign * compare(a.row, b.row) || a.at - b.at)
    .map(({ row }) => row);
}
