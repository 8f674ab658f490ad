import { expect, test } from 'vitest';
import type { Trace } from '@/api/client';
import { isRunning, outcomeTone, points } from './spans';

const trace: Trace = {
  requestId: 'r',
  tenant: 't',
  model: 'm',
  path: '/v1/chat/completions',
  stream: true,
  status: 200,
  outcome: 'client_cancelled',
  receivedAt: '2026-01-01T00:00:00.000100Z',
  sentAt: '2026-01-01T00:00:00.000900Z',
  firstByteAt: '2026-01-01T00:00:00.040100Z',
  firstContentAt: '2026-01-01T00:00:00.041100Z',
};

test('moments carry microseconds, begin where the one before ended, and say what did not happen', () => {
  const got = points(trace);
  expect(got.map((p) => p.moment)).toEqual([
    'received',
    'sent',
    'firstByte',
    'firstContent',
    'lastByte',
    'done',
  ]);
  expect(got[1]?.afterMs).toBeCloseTo(0.8, 2);
  expect(got[3]?.afterMs).toBeCloseTo(41, 2);
  expect(got[3]?.fromMs).toBeCloseTo(40, 2);
  expect(got.slice(4)).toEqual([{ moment: 'lastByte' }, { moment: 'done' }]);
});
test('a caller who left is no fault; a record without an outcome still runs', () => {
  expect([
    outcomeTone('completed'),
    outcomeTone('client_cancelled'),
    outcomeTone('upstream_cut'),
  ]).toEqual(['ok', 'idle', 'bad']);
  expect([isRunning(trace), isRunning({ ...trace, outcome: undefined })]).toEqual([false, true]);
});
