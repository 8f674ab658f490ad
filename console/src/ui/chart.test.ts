import { expect, test } from 'vitest';
import { extent, roundTop, stairs, ticks, valueAt, xOf, yOf } from './chart';

test.each([
  [[], 1],
  [[0, 1], 1],
  [[3], 5],
  [[5], 5],
  [[6, 2], 10],
  [[11], 20],
  [[1001], 2000],
])('the top over %j is %s', (values, want) => expect(roundTop(values)).toBe(want));

test('ticks are whole where the top is', () => {
  expect(ticks(8)).toEqual([0, 2, 4, 6, 8]);
  expect(ticks(5)).toEqual([0, 1, 2, 3, 4, 5]);
  expect(ticks(1)).toEqual([0, 1]);
  expect(ticks(2)).toEqual([0, 1, 2]);
  expect(ticks(0.5)).toHaveLength(5);
});

const frame = { from: 100, to: 200, top: 4 };

test('positions stay within the frame', () => {
  expect([xOf(100, frame), xOf(150, frame), xOf(300, frame)]).toEqual([0, 50, 100]);
  expect([yOf(0, frame), yOf(2, frame), yOf(9, frame)]).toEqual([100, 50, 0]);
  expect(xOf(5, { from: 1, to: 1, top: 1 })).toBe(0);
});

const steps = [
  { at: 50, value: 1 },
  { at: 150, value: 2 },
  { at: 175, value: 2 },
  { at: 180, value: 0 },
  { at: 500, value: 4 },
];

test('a value holds until the next one: the line is a staircase to the end of the frame', () => {
  expect(stairs(steps, frame)).toBe('M0 75H50V50H75H80V100H100');
  expect(stairs([], frame)).toBe('');
});

test.each([
  [49, undefined],
  [50, 1],
  [149, 1],
  [150, 2],
  [199, 0],
  [900, 4],
])('at %s the value is %s', (at, want) => expect(valueAt(steps, at)).toBe(want));

test('the extent begins with what held at the beginning', () => {
  expect(extent(steps, frame)).toEqual({ least: 0, most: 2, last: 0 });
  expect(extent(steps, { from: 185, to: 190, top: 1 })).toEqual({ least: 0, most: 0, last: 0 });
  expect(extent([], frame)).toBeUndefined();
});
