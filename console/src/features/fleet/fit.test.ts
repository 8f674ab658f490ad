import { expect, test } from 'vitest';
import type { Card, Fit, Node } from '@/api/client';
import { blocksOf } from './cards';
import { figuresOf, marksOf, readSize, withFit } from './fit';

test.each([
  ['24 GiB', 24576],
  ['24g', 24576],
  [' 24GB ', 24576],
  ['1.5 TiB', 1572864],
  ['0.5 GiB', 512],
  ['512 MiB', 512],
  ['24576', 24576],
  ['0', undefined],
  ['', undefined],
  ['-1', undefined],
  ['1e3', undefined],
  ['24 PiB', undefined],
  ['9999999999999 TiB', undefined],
])('the size %j is %s MiB', (text, want) => expect(readSize(text)).toBe(want));

const card = (uuid: string, freeMiB: number, healthy = true): Card => ({
  uuid,
  index: Number(uuid.at(-1)),
  model: 'm',
  simulated: true,
  totalMiB: 1000,
  reservedMiB: 0,
  allocatedMiB: 1000 - freeMiB,
  freeMiB,
  unaccountedMiB: 0,
  healthy,
  isolation: 'none',
  allocations: [{ uid: 'x', tenant: 't', requestId: 'r', mib: 1000 - freeMiB }],
});
const node = (name: string, ...cards: Card[]): Node => ({
  node: name,
  simulated: true,
  largestFragmentMiB: 0,
  cards,
});
const nodes = [
  node('a', card('a0', 400), card('a1', 300)),
  node('b', card('b0', 400), card('b1', 900), card('b2', 950, false)),
];
const answer = (more: Partial<Fit>): Fit => ({ fits: true, nodes: [], ...more });
const on = (name: string, fits: boolean, ...uuids: string[]) => ({
  node: name,
  fits,
  simulated: true,
  cards: uuids.map((uuid) => ({ uuid, index: 0, freeMiB: 1 })),
});

test('the card that was chosen is told from those that would do', () => {
  const fit = answer({ node: 'a', nodes: [on('a', true, 'a0'), on('b', true, 'b0')] });
  expect([...marksOf(nodes, fit, { mib: 350, gpus: 1 })]).toEqual([
    ['a0', 'chosen'],
    ['b0', 'fits'],
    ['b1', 'fits'], // not the unhealthy b2, whatever is free on it
  ]);
});

test('a card of a node that has too few is not marked', () => {
  const fit = answer({ node: 'b', nodes: [on('a', false), on('b', true, 'b0', 'b1')] });
  expect([...marksOf(nodes, fit, { mib: 350, gpus: 2 })]).toEqual([
    ['b0', 'chosen'],
    ['b1', 'chosen'],
  ]);
});

test('the figures tell the holes that are large enough from the crumbs', () => {
  expect(figuresOf(nodes, { mib: 400, gpus: 1 })).toEqual({
    able: 3,
    free: 2000,
    crumbs: 300,
    largest: { node: 'b', index: 1, mib: 900 },
    best: { node: 'b', able: 2 },
  });
  expect(figuresOf([], { mib: 1, gpus: 1 })).toEqual({ able: 0, free: 0, crumbs: 0 });
});

test('what would be taken stands at the foot of the hole, and the card keeps its size', () => {
  const [one] = nodes[0]?.cards ?? [];
  if (!one) throw new Error('no card');
  const blocks = blocksOf(one, new Map());
  expect(withFit(blocks, 350, 'chosen').map((b) => [b.kind, b.mib])).toEqual([
    ['allocation', 600],
    ['chosen', 350],
    ['free', 50],
  ]);
  expect(withFit(blocks, 400, 'fits').map((b) => [b.kind, b.mib])).toEqual([
    ['allocation', 600],
    ['fits', 400],
  ]);
  expect(withFit(blocks, 400, undefined)).toBe(blocks);
});
