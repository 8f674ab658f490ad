import { expect, test } from 'vitest';
import type { Card, Node } from '@/api/client';
import {
  blocksOf,
  coloursOf,
  fillOf,
  fragmentationOf,
  freeOf,
  legendOf,
  neighbour,
  sortNodes,
  totals,
} from './cards';

const card = (more: Partial<Card> = {}): Card => ({
  uuid: 'u',
  index: 0,
  model: 'm',
  simulated: true,
  totalMiB: 1000,
  reservedMiB: 100,
  allocatedMiB: 500,
  freeMiB: 300,
  unaccountedMiB: 100,
  healthy: true,
  isolation: 'none',
  allocations: [
    { uid: 'x', tenant: 'b', requestId: 'r1', mib: 200 },
    { uid: 'y', tenant: '', requestId: '', mib: 100 },
  ],
  ...more,
});
const node = (...cards: Card[]): Node => ({
  node: 'n',
  simulated: true,
  largestFragmentMiB: 0,
  cards,
});

test('the blocks fill the card, and what is taken without being listed is shown', () => {
  const blocks = blocksOf(card(), new Map([['b/r1', 3]]));
  expect(blocks.map((b) => [b.kind, b.mib, b.colour])).toEqual([
    ['reserved', 100, 0],
    ['allocation', 200, 3],
    ['allocation', 100, 0],
    ['untold', 300, 0],
    ['free', 300, 0],
  ]);
  expect(blocks.reduce((n, b) => n + b.mib, 0)).toBe(1000);
});
test('a card without a free fragment shows none, whatever its figures add up to', () => {
  const ill = card({ healthy: false, freeMiB: 0 });
  expect(freeOf(ill)).toBe(0);
  expect(blocksOf(ill, new Map()).some((b) => b.kind === 'free')).toBe(false);
});
test('colours go by name and not by the order of arrival', () => {
  const one = card({ allocations: [{ uid: '1', tenant: 'z', requestId: 'r', mib: 1 }] });
  const colours = (...cards: Card[]) => [...coloursOf(legendOf([node(...cards)]))];
  expect(colours(one, card())).toEqual(colours(card(), one));
  expect(colours(one, card())).toEqual([
    ['b/r1', 1],
    ['z/r', 2],
  ]);
});
test('only as many models as can be told apart have a colour: those that hold most', () => {
  const allocations = Array.from({ length: 10 }, (_, i) => ({
    uid: `u${i}`,
    tenant: 't',
    requestId: `r${9 - i}`,
    mib: i + 1,
  }));
  const legend = legendOf([node(card({ allocations }))]);
  expect(legend.map((l) => l.model)).toEqual([0, 1, 2, 3, 4, 5, 6, 7].map((i) => `t/r${i}`));
  expect(legend.map((l) => l.colour)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  const blocks = blocksOf(card({ allocations }), coloursOf(legend));
  const fill = (requestId: string, lit?: string) =>
    blocks.filter((b) => b.requestId === requestId).map((b) => fillOf(b, lit));
  expect(fill('r9')).toEqual(['bg-ink-3']); // the smallest
  expect(fill('r0')).toEqual(['bg-cat-1']); // the largest
  expect(fill('r0', 't/r1')).toEqual(['bg-line-strong']);
});

const named = (name: string, largestFragmentMiB: number, ...cards: Card[]): Node => ({
  node: name,
  simulated: true,
  largestFragmentMiB,
  cards,
});

test('fragmentation is what the largest hole does not hold of the free memory', () => {
  expect(fragmentationOf(named('n', 300, card()))).toBe(0);
  expect(fragmentationOf(named('n', 300, card(), card()))).toBe(0.5);
  expect(fragmentationOf(named('n', 0, card({ freeMiB: 0 })))).toBe(0);
});

test('nodes are sorted as asked, and by name with numbers read as numbers', () => {
  const full = named('node-10', 0, card({ freeMiB: 0 }));
  const whole = named('node-9', 300, card());
  const crumbs = named('node-2', 300, card(), card());
  const names = (order: 'name' | 'free' | 'fragmented') =>
    sortNodes([full, whole, crumbs], order).map((n) => n.node);
  expect(names('name')).toEqual(['node-2', 'node-9', 'node-10']);
  expect(names('free')).toEqual(['node-2', 'node-9', 'node-10']);
  expect(names('fragmented')[0]).toBe('node-2');
});

test.each([
  ['a0', 'ArrowRight', 'a1'],
  ['a1', 'ArrowRight', 'b0'],
  ['b0', 'ArrowLeft', 'a1'],
  ['a0', 'ArrowLeft', undefined],
  ['a1', 'ArrowDown', 'b0'], // the next node has fewer cards
  ['b0', 'ArrowUp', 'a0'],
  ['b0', 'ArrowDown', undefined],
  ['b0', 'Home', 'a0'],
  ['a0', 'End', 'b0'],
  ['a0', 'x', undefined],
])('from %s the key %s leads to %s', (from, key, want) => {
  const nodes = [
    named('a', 0, card({ uuid: 'a0' }), card({ uuid: 'a1' })),
    named('b', 0, card({ uuid: 'b0' })),
  ];
  expect(neighbour(nodes, from, key)).toBe(want);
});
test('totals', () =>
  expect(totals([node(card(), card())])).toEqual({ nodes: 1, cards: 2, free: 600, total: 2000 }));
