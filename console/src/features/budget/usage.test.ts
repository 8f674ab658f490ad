import { expect, test } from 'vitest';
import { coursesOf } from './usage';

test('a course is on the scale of its cap, or of what was used above it', () => {
  const from = '2026-01-01T00:00:00.000000Z';
  const to = '2026-01-02T00:00:00.000000Z';
  const points = [
    { at: from, used: 2 },
    { at: '2026-01-01T12:00:00.000000Z', used: 7 },
  ];
  const got = coursesOf(
    [
      { name: 'a', cap: 4, used: 7, points },
      { name: 'b', cap: 50, used: 0, points: [] },
    ],
    from,
    to,
  );
  expect(got.get('a')).toMatchObject({ least: 2, most: 7, cap: 4, used: 7, frame: { top: 10 } });
  expect(got.get('a')?.steps.map((s) => s.value)).toEqual([2, 7]);
  expect(got.get('b')).toMatchObject({ least: 0, most: 0, frame: { top: 50 } });
});
