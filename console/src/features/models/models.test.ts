import { expect, test } from 'vitest';
import type { Evidence, ModelVersion, Node } from '@/api/client';
import { proofOf, replicasOf, sharesOf, summaryOf } from './models';

const version = (more: Partial<ModelVersion> = {}): ModelVersion => ({
  version: 'v1',
  requestId: 'r1',
  weight: 100,
  replicas: 1,
  readyReplicas: 1,
  queue: 0,
  inFlight: 0,
  endpoints: [],
  ...more,
});

test.each([
  [[100], [100]],
  [
    [1, 1, 1],
    [34, 33, 33],
  ],
  [
    [90, 10, 0],
    [90, 10, 0],
  ],
  [
    [0, 0],
    [0, 0],
  ],
  [
    [2, 1],
    [67, 33],
  ],
])('weights %j are shares %j', (weights, want) =>
  expect(sharesOf(weights.map((weight) => version({ weight })))).toEqual(want),
);

test('a model sums its versions and names the one in the worst state', () => {
  const sick = version({ version: 'v2', replicas: 2, readyReplicas: 0, reason: 'ModelLoadFailed' });
  const well = version({ queue: 3, inFlight: 2, reason: 'Available' });
  const loading = version({ version: 'v3', readyReplicas: 0, reason: 'Loading' });
  expect(summaryOf({ owner: 'a', name: 'm', versions: [well, loading, sick] })).toEqual({
    ready: 1,
    wanted: 4,
    queue: 3,
    inFlight: 2,
    worst: sick,
  });
});

const nodes: Node[] = [
  {
    node: 'n1',
    simulated: true,
    largestFragmentMiB: 0,
    cards: [0, 1].map((index) => ({
      uuid: `c${index}`,
      index,
      model: 'm',
      simulated: true,
      totalMiB: 100,
      reservedMiB: 0,
      allocatedMiB: 10,
      freeMiB: 0,
      unaccountedMiB: 0,
      healthy: true,
      isolation: 'none',
      allocations: [
        { uid: 'two-cards', tenant: 'a', requestId: 'r1', mib: 5 },
        ...(index === 0 ? [{ uid: 'loads', tenant: 'a', requestId: 'r1', mib: 5 }] : []),
        { uid: `other-${index}`, tenant: 'b', requestId: 'r1', mib: 5 },
      ],
    })),
  },
];

test('replicas are those on cards joined with those that the gateway knows', () => {
  const v = version({
    endpoints: [
      { uid: 'two-cards', address: '127.0.0.1:1', card: 'c0', ready: true, inFlight: 2 },
      { uid: 'elsewhere', address: '10.0.0.1:1', node: 'n9', ready: true, inFlight: 0 },
    ],
  });
  expect(replicasOf(v, 'a', nodes).map((r) => [r.uid, r.state, r.node, r.cards])).toEqual([
    ['two-cards', 'ready', 'n1', ['0', '1']],
    ['loads', 'placed', 'n1', ['0']],
    ['elsewhere', 'ready', 'n9', []],
  ]);
});

test('another tenant with the same request id has no part in it', () =>
  expect(replicasOf(version(), 'c', nodes)).toEqual([]));

test('the proof reads figures only, and nothing from what is not there', () => {
  const step = (name: string, facts: Record<string, unknown>) => ({ step: name, facts });
  const evidence = {
    steps: [
      step('started', { restarts: 2, exitCode: 'odd' }),
      step('firstChunk', { firstChunkMilliseconds: 41.5, requestId: 'req-1' }),
    ],
  } as unknown as Evidence;
  expect(proofOf(evidence)).toEqual({
    firstChunkMs: 41.5,
    callId: 'req-1',
    restarts: 2,
    exitCode: undefined,
  });
  expect(proofOf(undefined)).toEqual({});
});
