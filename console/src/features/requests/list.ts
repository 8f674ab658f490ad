import type { Request, State } from '@/api/client';

export type StateFilter = State | 'all';
export const stateFilters: readonly StateFilter[] = [
  'all',
  'waiting',
  'reserved',
  'released',
  'expired',
];

/** Names a row: two tenants may use the same id. */
export const keyOf = (r: { tenant: string; id: string }) => `${r.tenant}/${r.id}`;

export const modelName = (r: Request) => r.model.name ?? r.id;

/** How many requests stand in each state. */
export function countStates(items: readonly Request[]): Record<StateFilter, number> {
  const counts = { all: items.length, waiting: 0, reserved: 0, released: 0, expired: 0 };
  for (const r of items) counts[r.state]++;
  return counts;
}

// What a filter looks at, made once for each record: records are replaced and
// never changed. A line feed is in none of the parts, nor in what is typed.
const texts = new WeakMap<Request, string>();
function textOf(r: Request): string {
  const known = texts.get(r);
  if (known !== undefined) return known;
  const text = [r.id, r.tenant, modelName(r), r.reason ?? ''].join('\n').toLowerCase();
  texts.set(r, text);
  return text;
}

/** Requests of a state whose id, tenant, model or reason contains the text, newest first. */
export function select(items: readonly Request[], state: StateFilter, text: string): Request[] {
  const needle = text.trim().toLowerCase();
  const found: Request[] = [];
  for (let at = items.length - 1; at >= 0; at--) {
    const r = items[at];
    if (!r || (state !== 'all' && r.state !== state)) continue;
    if (needle === '' || textOf(r).includes(needle)) found.push(r);
  }
  return found;
}

/**
 * Rows that may be shown while somebody reads: those that were shown before.
 * New ones are held back and counted, so that nothing moves under the eye.
 */
export function holdBack(
  rows: readonly Request[],
  known: ReadonlySet<string>,
): { rows: Request[]; held: number } {
  const shown = rows.filter((r) => known.has(keyOf(r)));
  return { rows: shown, held: rows.length - shown.length };
}

/** Memory of one replica over all its cards. */
export const memoryOf = (r: Request) => (r.model.gpuMemoryMiB ?? 0) * (r.model.gpus ?? 1);
