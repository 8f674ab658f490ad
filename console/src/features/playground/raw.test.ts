import { expect, test } from 'vitest';
import { RawEvents } from './raw';

test('events are kept as they came', () => {
  const raw = new RawEvents();
  raw.add(': ping');
  raw.add('data: <b>x</b>');
  expect(raw.count.value).toBe(2);
  expect(raw.read()).toEqual({ text: ': ping\ndata: <b>x</b>', left: 0 });
});

test('of too many, and of too large ones, the beginning is kept and the rest counted', () => {
  const many = new RawEvents();
  for (let n = 0; n < 2_500; n++) many.add(String(n));
  expect(many.read().left).toBe(500);
  const large = new RawEvents();
  large.add('small');
  large.add('x'.repeat(500_000));
  large.add('small again');
  expect(large.read()).toEqual({ text: 'small', left: 2 });
});
