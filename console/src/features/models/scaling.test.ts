import { expect, test } from 'vitest';
import type { ModelVersion } from '@/api/client';
import { heldBackBy, historyOf, inputsOf, warmthOf, type Decision, type Report } from './scaling';

const at = (minute: number) => new Date(Date.UTC(2026, 0, 1, 12, minute)).toISOString();
const decision = (
  minute: number,
  from: number,
  to: number,
  more: Partial<Decision> = {},
): Decision => ({
  at: at(minute),
  from,
  to,
  reason: 'Up',
  ...more,
});
const report = (more: Partial<Report> = {}): Report => ({
  items: [],
  next: '',
  id: 'r',
  tenant: 't',
  actuator: 'direct',
  paused: false,
  min: 0,
  max: 4,
  wanted: 2,
  running: 2,
  funded: 2,
  ready: 2,
  ...more,
});

test('the history runs from before the first change until now, oldest first', () => {
  const now = Date.parse(at(40));
  const got = historyOf(report({ items: [decision(30, 1, 3), decision(10, 0, 1)] }), now);
  expect(got?.steps.map((s) => s.value)).toEqual([0, 1, 3]);
  expect(got?.steps[1]?.at).toBe(Date.parse(at(10)));
  expect(got?.frame.from).toBeLessThan(Date.parse(at(10)));
  expect(got?.frame).toMatchObject({ to: now, top: 5 });
  expect(historyOf(report(), now)).toBeUndefined();
});

test('the signal that asks for most decides; one that is not known does not', () => {
  const inputs = [
    { metric: 'queueDepth', value: 14, target: 10, proposal: 3 },
    { metric: 'kvCachePercent', value: 20, target: 80, proposal: 1 },
    { metric: 'gpuMemoryPercent', target: 80, proposal: 4 },
  ];
  expect(inputsOf(decision(0, 2, 3, { inputs })).map((i) => i.decides)).toEqual([
    true,
    false,
    false,
  ]);
  expect(inputsOf(undefined)).toEqual([]);
});

test('what is asked for and does not run is held back by budget, or is starting', () => {
  expect(heldBackBy(report())).toBeUndefined();
  expect(heldBackBy(report({ wanted: 3 }))).toBe('budget');
  expect(heldBackBy(report({ ready: 1 }))).toBe('starting');
});

test.each([
  [1, 2, 'hot'],
  [0, 2, 'waking'],
  [0, 0, 'asleep'],
] as const)('with %s of %s replicas ready it is %s', (readyReplicas, replicas, want) => {
  expect(warmthOf({ readyReplicas, replicas } as ModelVersion)).toBe(want);
});
