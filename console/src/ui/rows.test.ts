import { describe, expect, test } from 'vitest';
import { isJump, nextSort, sorted, windowOf } from './rows';

describe('windowOf', () => {
  test('a short list is drawn whole', () =>
    expect(windowOf(50, 36, 900, 600, 200)).toEqual({ first: 0, end: 50 }));
  test('a long one draws what is in view, with a margin', () => {
    const { first, end } = windowOf(10_000, 36, 36_000, 720, 200);
    expect(first).toBeLessThan(1000);
    expect(end).toBeGreaterThan(1020);
    expect(end - first).toBeLessThan(60);
  });
  test('the ends of the list, and a scroll beyond a list that became shorter', () => {
    expect(windowOf(1000, 36, 0, 720, 200).first).toBe(0);
    expect(windowOf(1000, 36, 36_000, 720, 200).end).toBe(1000);
    const beyond = windowOf(300, 36, 99_999, 720, 200);
    expect(beyond.first).toBeLessThan(300);
    expect(beyond.end).toBe(300);
  });
});

test('a jump leaves nothing of what was drawn', () => {
  const drawn = { first: 100, end: 140 };
  expect(isJump(drawn, { first: 139, end: 160 })).toBe(false);
  expect(isJump(drawn, { first: 140, end: 160 })).toBe(true);
  expect(isJump(drawn, { first: 60, end: 100 })).toBe(true);
  expect(isJump(drawn, { first: 60, end: 101 })).toBe(false);
});

test('a column head sorts up, then down, then not at all', () => {
  const up = nextSort(null, 'id');
  const down = nextSort(up, 'id');
  expect([up, down, nextSort(down, 'id'), nextSort(down, 'age')]).toEqual([
    { key: 'id', descending: false },
    { key: 'id', descending: true },
    null,
    { key: 'age', descending: false },
  ]);
});

test('sorting keeps the order of equal rows both ways, and changes no input', () => {
  const rows = [
    { k: 1, n: 'a' },
    { k: 0, n: 'b' },
    { k: 1, n: 'c' },
  ];
  const by = (x: (typeof rows)[0], y: (typeof rows)[0]) => x.k - y.k;
  expect(sorted(rows, by, false).map((r) => r.n)).toEqual(['b', 'a', 'c']);
  expect(sorted(rows, by, true).map((r) => r.n)).toEqual(['a', 'c', 'b']);
  expect(rows.map((r) => r.n)).toEqual(['a', 'b', 'c']);
});
