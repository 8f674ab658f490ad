import { expect, test } from 'vitest';
import { MOST_BYTES, problemOf, samples, sampleTrace } from './trace';

const rowsOf = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .slice(1)
    .map((line) => line.split(',').map(Number));

test.each(samples)(
  'the made trace %s is the same every time, in order, and small enough',
  (kind) => {
    const text = sampleTrace(kind);
    expect(sampleTrace(kind)).toBe(text);
    expect(problemOf(text)).toBeUndefined();
    const rows = rowsOf(text);
    expect(rows.length).toBeGreaterThan(1000);
    expect(rows.every((r) => r.length === 3 && r.every((n) => Number.isInteger(n) && n >= 0))).toBe(
      true,
    );
    const times = rows.map(([at = 0]) => at);
    expect(times.every((at, i) => i === 0 || at >= (times[i - 1] ?? 0))).toBe(true);
  },
);

test('bursts are bursts: most of them arrive in a tenth of the time', () => {
  const rows = rowsOf(sampleTrace('bursts'));
  const within = rows.filter(([at = 0]) => (at / 1000) % 600 < 60).length;
  expect(within / rows.length).toBeGreaterThan(0.8);
});

test.each([
  ['', 'empty'],
  ['  \n', 'empty'],
  ['a,b,c\n1,2,3\n', 'head'],
  ['TIMESTAMP,ContextTokens,GeneratedTokens\n', undefined],
  ['timestamp_s,rate_rps,cv\n', undefined],
  [`timestamp_s,${'x'.repeat(MOST_BYTES)}`, 'tooLarge'],
])('a trace that begins with %.20j has the problem %s', (text, want) =>
  expect(problemOf(text)).toBe(want),
);
