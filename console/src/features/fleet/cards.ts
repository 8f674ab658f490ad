import type { Card, Node } from '@/api/client';

export interface Block {
  key: string;
  /** `chosen` and `fits` are free, and marked by the answer to "would it fit". */
  kind: 'reserved' | 'allocation' | 'untold' | 'free' | 'chosen' | 'fits';
  mib: number;
  tenant: string;
  requestId: string;
  /** Index of the colour, for allocations. */
  colour: number;
}

const COLOURS = 8;

/** Names the model of an allocation by its request; another tenant's has no name. */
export const modelOf = (a: { tenant: string; requestId: string }) =>
  a.requestId ? `${a.tenant}/${a.requestId}` : '';

/** One line of the legend. */
export interface Legend {
  model: string;
  mib: number;
  colour: number;
}

/**
 * The models that hold most memory, each with a colour of its own by sorted
 * name, so that colours do not change with the order of arrival. There are as
 * many colours as can be told apart; all other models are grey.
 */
export function legendOf(nodes: readonly Node[]): Legend[] {
  const sums = new Map<string, number>();
  for (const node of nodes) {
    for (const card of node.cards) {
      for (const a of card.allocations) {
        const model = modelOf(a);
        if (model) sums.set(model, (sums.get(model) ?? 0) + a.mib);
      }
    }
  }
  return [...sums]
    .sort(([a, x], [b, y]) => y - x || a.localeCompare(b))
    .slice(0, COLOURS)
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([model, mib], at) => ({ model, mib, colour: at + 1 }));
}

export const coloursOf = (legend: readonly Legend[]): Map<string, number> =>
  new Map(legend.map(({ model, colour }) => [model, colour]));

/** The class that fills a block; with one model lit, all others stand back. */
export function fillOf(block: Block, lit = ''): string {
  if (block.kind === 'free') return 'bg-sunken';
  if (block.kind === 'reserved') return 'hatched bg-sunken';
  if (block.kind === 'untold') return 'bg-ink-3';
  if (block.kind === 'chosen') return 'fit-chosen';
  if (block.kind === 'fits') return 'fit-hole';
  if (lit && modelOf(block) !== lit) return 'bg-line-strong';
  return FILLS[block.colour] ?? 'bg-ink-3';
}

const FILLS = [
  'bg-ink-3',
  'bg-cat-1',
  'bg-cat-2',
  'bg-cat-3',
  'bg-cat-4',
  'bg-cat-5',
  'bg-cat-6',
  'bg-cat-7',
  'bg-cat-8',
];

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
      colour: colours.get(modelOf(a)) ?? 0,
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

/** The share of free memory that is not in the largest hole: 0 in one piece, towards 1 in crumbs. */
export function fragmentationOf(node: Node): number {
  const free = node.cards.reduce((sum, c) => sum + freeOf(c), 0);
  return free > 0 ? 1 - Math.min(1, node.largestFragmentMiB / free) : 0;
}

export const orders = ['name', 'free', 'fragmented'] as const;
export type Order = (typeof orders)[number];

/** The nodes in the wanted order; equal ones by name, with numbers read as numbers. */
export function sortNodes(nodes: readonly Node[], order: Order): Node[] {
  const free = (n: Node) => n.cards.reduce((sum, c) => sum + freeOf(c), 0);
  const by = { name: () => 0, free, fragmented: fragmentationOf }[order];
  return nodes
    .slice()
    .sort((a, b) => by(b) - by(a) || a.node.localeCompare(b.node, 'en', { numeric: true }));
}

/** Where an arrow key leads: to the next card, or to the same place on the next node. */
export function neighbour(nodes: readonly Node[], uuid: string, key: string): string | undefined {
  const at = nodes.findIndex((n) => n.cards.some((c) => c.uuid === uuid));
  const cards = nodes[at]?.cards ?? [];
  const place = cards.findIndex((c) => c.uuid === uuid);
  const onNode = (node: Node | undefined, index: number) =>
    node?.cards[Math.min(Math.max(index, 0), node.cards.length - 1)]?.uuid;
  switch (key) {
    case 'ArrowRight':
      return cards[place + 1]?.uuid ?? onNode(nodes[at + 1], 0);
    case 'ArrowLeft':
      return place > 0 ? cards[place - 1]?.uuid : onNode(nodes[at - 1], Infinity);
    case 'ArrowDown':
      return onNode(nodes[at + 1], place);
    case 'ArrowUp':
      return onNode(nodes[at - 1], place);
    case 'Home':
      return onNode(nodes[0], 0);
    case 'End':
      return onNode(nodes.at(-1), Infinity);
    default:
      return undefined;
  }
}
