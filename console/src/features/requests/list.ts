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

/** Requests of a state whose id, tenant, model or reason contains the text, newest first. */
export function select(items: readonly Request[], state: StateFilter, text: string): Request[] {
  const needle = text.trim().toLowerCase();
  const hit = (r: Request) =>
    needle === '' ||
    [r.id, r.tenant, modelName(r), r.reason ?? ''].some((s) => s.toLowerCase().includes(needle));
  return items.filter((r) => (state === 'all' || r.state === state) && hit(r)).reverse();
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
