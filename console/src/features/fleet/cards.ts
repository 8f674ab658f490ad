import type { Card, Node } from '@/api/client';

export interface Block {
  key: string;
  kind: 'reserved' | 'allocation' | 'untold' | 'free';
  mib: number;
  tenant: string;
  requestId: string;
  /** Index of the colour, for allocations. */
  colour: number;
}

const COLOURS = 8;

/** Colours by sorted tenant name, so that they do not change with the order of arrival. */
export function coloursOf(nodes: readonly Node[]): Map<string, number> {
  const names = new Set<string>();
  for (const node of nodes) {
    for (const card of node.cards)
      for (const a of card.allocations) if (a.tenant) names.add(a.tenant);
  }
  return new Map([...names].sort().map((name, i) => [name, (i % COLOURS) + 1]));
}

/**
 * A card's memory from left to right: what the system keeps, each allocation,
 * what is taken without being listed, by accounts or as measured, and what is free.
 */
export function blocksOf(card: Card, colours: ReadonlyMap<string, number>): Block[] {
  const blank = { tenant: '', requestId: '', colour: 0 };
  const listed = card.allocations.reduce((sum, a) => sum + a.mib, 0);
  const blocks: Block[] = [];
  if (card.reservedMiB > 0)
    blocks.push({ ...blank, key: 'reserved', kind: 'reserved', mib: card.reservedMiB });
  for (const a of card.allocations) {
    const { uid, mib, tenant, requestId } = a;
    blocks.push({
      key: uid,
      kind: 'allocation',
      mib,
      tenant,
      requestId,
      colour: colours.get(tenant) ?? 0,
    });
  }
  const untold = card.allocatedMiB - listed + card.unaccountedMiB;
  if (untold > 0) blocks.push({ ...blank, key: 'untold', kind: 'untold', mib: untold });
  const free = freeOf(card);
  if (free > 0) blocks.push({ ...blank, key: 'free', kind: 'free', mib: free });
  return blocks;
}

/** What a card can still give: its fragment, as placement counts it. */
export const freeOf = (card: Card) => card.freeMiB;

export interface Totals {
  nodes: number;
  cards: number;
  free: number;
  total: number;
}

export function totals(nodes: readonly Node[]): Totals {
  const cards = nodes.flatMap((n) => n.cards);
  const sum = (of: (c: Card) => number) => cards.reduce((n, c) => n + of(c), 0);
  return {
    nodes: nodes.length,
    cards: cards.length,
    free: sum(freeOf),
    total: sum((c) => c.totalMiB),
  };
}
