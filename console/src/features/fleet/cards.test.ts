import { expect, test } from 'vitest';
import type { Card, Node } from '@/api/client';
import { blocksOf, coloursOf, freeOf, totals } from './cards';

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
  const blocks = blocksOf(card(), new Map([['b', 3]]));
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
  expect([...coloursOf([node(one, card())])]).toEqual([...coloursOf([node(card(), one)])]);
  expect([...coloursOf([node(one, card())])]).toEqual([
    ['b', 1],
    ['z', 2],
  ]);
});
test('totals', () =>
  expect(totals([node(card(), card())])).toEqual({ nodes: 1, cards: 2, free: 600, total: 2000 }));
