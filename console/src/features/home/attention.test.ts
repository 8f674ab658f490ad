import { expect, test } from 'vitest';
import type { Card, Evidence, Node, Request, ServedModel, VerifyReport } from '@/api/client';
import { attention, toExplain } from './attention';

const request = (id: string, more: Partial<Request> = {}) =>
  ({ id, tenant: 'a', state: 'waiting', ...more }) as Request;
const evidence = (id: string, brokenAt: string | null) =>
  ({ id, tenant: 'a', brokenAt, reason: 'R', steps: [] }) as unknown as Evidence;
const model = (requestId: string, reason: string, readyReplicas = 0): ServedModel => ({
  owner: 'a',
  name: `m-${requestId}`,
  versions: [
    {
      version: 'v1',
      requestId,
      weight: 100,
      replicas: 1,
      readyReplicas,
      queue: 0,
      inFlight: 0,
      reason,
      endpoints: [],
    },
  ],
});
const report = (more: Partial<VerifyReport>) =>
  ({ clean: true, violations: [], ...more }) as unknown as VerifyReport;
const kindsOf = (...args: Parameters<typeof attention>) =>
  attention(...args).map((item) => [item.kind, item.subject]);

test('nothing that is well needs attention', () => {
  const card = { uuid: 'c', index: 0, healthy: true } as Card;
  expect(
    attention({
      requests: [request('ok', { state: 'reserved' }), request('soon', { reason: 'QueuedBehind' })],
      evidence: [evidence('ok', null)],
      models: [model('ok', 'Available', 1), model('new', 'Loading')],
      nodes: [{ node: 'n', cards: [card] } as unknown as Node],
      ledger: report({}),
      parts: [{ name: 'store', status: 'ok', since: '' }],
    }),
  ).toEqual([]);
  expect(attention({})).toEqual([]);
});

test('everything else is named, the ledger first', () => {
  const card = { uuid: 'c', index: 3, healthy: false } as Card;
  expect(
    kindsOf({
      requests: [request('waits', { reason: 'QuotaBlocked' })],
      evidence: [evidence('cut', 'firstChunk')],
      models: [model('dead', 'ModelLoadFailed')],
      nodes: [{ node: 'n', cards: [card] } as unknown as Node],
      ledger: report({
        clean: false,
        violations: [{ invariant: 'INV1', subject: 'team-a', message: 'm' }],
      }),
      parts: [{ name: 'relay', status: 'degraded', reason: 'late', since: '' }],
    }),
  ).toEqual([
    ['drift', 'INV1 team-a'],
    ['part', 'relay'],
    ['card', 'n · 3'],
    ['failing', 'a/m-dead@v1'],
    ['broken', 'a/cut'],
    ['blocked', 'a/waits'],
  ]);
});

test('a model that cannot start is said once, not again as a broken link', () =>
  expect(
    kindsOf({ models: [model('dead', 'CrashLooping')], evidence: [evidence('dead', 'started')] }),
  ).toEqual([['failing', 'a/m-dead@v1']]));

test('a ledger that is older than the world is trouble though it is clean', () =>
  expect(attention({ ledger: report({ older: 'why' }) })[0]?.message).toBe('why'));

test('evidence is read for the newest live requests only', () => {
  const live = (id: string) => request(id, { state: 'reserved' });
  const list = [
    live('1'),
    request('2'),
    live('3'),
    request('4', { state: 'reserved', releaseRequestedAt: 'x' }),
    live('5'),
  ];
  expect(toExplain(list, 2).map((r) => r.id)).toEqual(['5', '3']);
});
