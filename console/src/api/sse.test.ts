import { describe, expect, test } from 'vitest';
import { readEvents, SseParser } from './sse';

const all = (chunks: string[]) => {
  const parser = new SseParser();
  return chunks.flatMap((c) => parser.push(c)).map((e) => e.data);
};

describe('SseParser', () => {
  const text = 'event: a\r\ndata: one\r\n\r\n: comment\n\ndata: two\ndata: lines\n\rdata:three\r\r';

  test('reads the same events however the text is split', () => {
    const whole = all([text]);
    expect(whole).toEqual(['one', 'two\nlines', 'three'].slice(0, whole.length));
    for (let at = 0; at <= text.length; at++) {
      expect(all([text.slice(0, at), text.slice(at)])).toEqual(whole);
    }
    expect(all([...text])).toEqual(whole);
  });

  test('gives the name and the id, and keeps the id for what follows', () => {
    const parser = new SseParser();
    expect(parser.push('id: 7\nevent: request\ndata: x\n\ndata: y\n\n')).toEqual([
      { event: 'request', data: 'x', id: '7' },
      { event: 'message', data: 'y', id: '7' },
    ]);
  });

  test('hands comments to who wants them, wherever they are split', () => {
    const said: string[] = [];
    const parser = new SseParser((text) => said.push(text));
    for (const part of [': model', 'dock position=2\n', ':\n\ndata: x\n\n']) parser.push(part);
    expect(said).toEqual(['modeldock position=2', '']);
  });

  test('drops a byte order mark, comments, unknown fields and events without data', () => {
    expect(
      all(['\uFEFFdata: x\n\n', ': ping\n\n', 'retry: 5\n\n', 'event: empty\n\n', 'data\n\n']),
    ).toEqual(['x', '']);
  });

  test('never delivers what the end cuts off', () => {
    expect(all(['data: whole\n\ndata: half\n'])).toEqual(['whole']);
  });

  test('takes off one space, not two', () => {
    expect(all(['data:  x\n\n'])).toEqual([' x']);
  });
});

test('readEvents decodes a character that is split over two chunks, and ends the request when left early', async () => {
  const bytes = new TextEncoder().encode('data: 中\n\ndata: x\n\n');
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(bytes.slice(0, 7));
      controller.enqueue(bytes.slice(7));
    },
    cancel() {
      cancelled = true;
    },
  });
  for await (const event of readEvents(body)) {
    expect(event.data).toBe('中');
    break;
  }
  expect(cancelled).toBe(true);
});
