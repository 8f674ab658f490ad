import { describe, expect, test } from 'vitest';
import { age, clock, count, mib, ms, share, span, stamp, zone } from './format';

test.each([
  [0, '0 MiB'],
  [512, '512 MiB'],
  [1024, '1 GiB'],
  [4096, '4 GiB'],
  [1536, '1.5 GiB'],
  [81_920, '80 GiB'],
  [150 * 1024 + 300, '150 GiB'],
  [1024 * 1024, '1 TiB'],
  [undefined, '–'],
  [null, '–'],
  [NaN, '–'],
])('mib(%s) is %s', (value, want) => expect(mib(value)).toBe(want));

test.each([
  [-5, '0s'],
  [0.9, '0s'],
  [8, '8s'],
  [63, '1m 03s'],
  [3600, '1h 00m'],
  [7500, '2h 05m'],
  [86_400 * 3 + 4 * 3600, '3d 04h'],
])('span(%s) is %s', (seconds, want) => expect(span(seconds)).toBe(want));

test('age of what has no time, or none that can be read, is a dash', () => {
  expect(age(undefined, 0)).toBe('–');
  expect(age('soon', 0)).toBe('–');
  expect(age('2026-01-01T00:00:00.000000Z', Date.parse('2026-01-01T00:01:03Z'))).toBe('1m 03s');
});

test.each([
  [41.4, '41 ms'],
  [999.4, '999 ms'],
  [1240, '1.24 s'],
  [12_500, '12.5 s'],
  [undefined, '–'],
])('ms(%s) is %s', (value, want) => expect(ms(value)).toBe(want));

describe('times', () => {
  const iso = '2026-03-04T05:06:07.089123Z';
  const d = new Date(iso);
  const two = (n: number) => String(n).padStart(2, '0');

  test('clock shows local time with milliseconds', () => {
    expect(clock(iso)).toBe(`${two(d.getHours())}:${two(d.getMinutes())}:07.089`);
    expect(clock(undefined)).toBe('–');
  });
  test('stamp names the zone', () => {
    expect(stamp(iso)).toContain(`:07 ${zone(d)}`);
    expect(zone(d)).toMatch(/^UTC([+−]\d+(:\d\d)?)?$/);
  });
  test('zone writes half hours and both signs', () => {
    const at = (minutes: number) => zone({ getTimezoneOffset: () => minutes } as Date);
    expect([at(0), at(-480), at(210), at(-330)]).toEqual(['UTC', 'UTC+8', 'UTC−3:30', 'UTC+5:30']);
  });
});

test('share stays between 0 and 100 and knows no division by nothing', () => {
  expect([share(1, 4), share(9, 4), share(-1, 4), share(1, 0)]).toEqual([25, 100, 0, 0]);
});

test('count groups digits by language', () => expect(count(1234567, 'en')).toBe('1,234,567'));
