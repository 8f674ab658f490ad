import { expect, test } from 'vitest';
import type { Key, VerifyReport } from '@/api/client';
import { goodName } from '@/app/names';
import { effectOf, keyState, readCap, sortKeys, verdictOf } from './rules';

test.each([
  ['a', true],
  ['team-a.b_c', true],
  ['-a', false],
  ['a-', false],
  ['', false],
  ['a b', false],
  ['团队', false],
  ['x'.repeat(128), true],
  ['x'.repeat(129), false],
])('the name %j is good: %s', (name, want) => expect(goodName(name)).toBe(want));

test.each([
  ['0', 0],
  [' 12 ', 12],
  ['', undefined],
  ['-1', undefined],
  ['1.5', undefined],
  ['1e3', undefined],
  ['9007199254740991', 9007199254740991],
  ['9007199254740993', undefined],
])('the cap %j is read as %s', (text, want) => expect(readCap(text)).toBe(want));

test('a cap says what it would do', () => {
  const of = { kind: 'tenant', name: 'a', used: 4, cap: 8 } as const;
  expect([8, 9, 5, 4, 3].map((cap) => effectOf(of, cap))).toEqual([
    'none',
    'raises',
    'lowers',
    'lowers',
    'overdrawn',
  ]);
});

const now = Date.parse('2026-01-02T00:00:00Z');
const key = (id: string, more: Partial<Key> = {}): Key => ({
  id,
  role: 'viewer',
  createdAt: '2026-01-01T00:00:00.000000Z',
  ...more,
});

test('a key ends by being revoked or by its time', () => {
  expect(keyState(key('a'), now)).toBe('live');
  expect(keyState(key('a', { expiresAt: '2026-01-02T00:00:00.000000Z' }), now)).toBe('expired');
  const both = { expiresAt: '2026-01-01T00:00:00Z', revokedAt: '2026-01-01T00:00:00Z' };
  expect(keyState(key('a', both), now)).toBe('revoked');
});

test('live keys come first, the newest on top', () => {
  const keys = [
    key('gone', { revokedAt: '2026-01-01T00:00:00Z' }),
    key('old'),
    key('new', { createdAt: '2026-01-01T12:00:00.000000Z' }),
  ];
  expect(sortKeys(keys, now).map((k) => k.id)).toEqual(['new', 'old', 'gone']);
});

test('an older ledger is said before anything else', () => {
  const report = { clean: true, violations: [] } as unknown as VerifyReport;
  expect(verdictOf(report)).toBe('clean');
  expect(verdictOf({ ...report, clean: false })).toBe('drift');
  expect(verdictOf({ ...report, older: 'because' })).toBe('older');
});
