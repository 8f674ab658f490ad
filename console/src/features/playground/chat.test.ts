// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ApiError, useCredentials } from '@/api/client';
import { parseWaiting, streamChat, type ChatEvents, type Waiting } from './chat';
import { choices } from './models';
import { firstChunkMs, perSecondText, rate } from './speed';

const chunk = (delta: object, more: object = {}) =>
  `data: ${JSON.stringify({ choices: [{ delta }], ...more })}\n\n`;
let sent: [string, RequestInit][] = [];
let said: { waits: Waiting[]; raw: string[] };

function serve(parts: string[], init: ResponseInit = {}) {
  vi.stubGlobal('fetch', (url: string, request: RequestInit) => {
    sent.push([url, request]);
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const part of parts) controller.enqueue(new TextEncoder().encode(part));
        controller.close();
      },
    });
    return Promise.resolve(new Response(body, { headers: { 'x-request-id': 'req-1' }, ...init }));
  });
}

const run = async (model = 'm') => {
  const got = { id: '', text: '', reasoning: '', tokens: 0 };
  const waits: Waiting[] = [];
  const raw: string[] = [];
  const on: ChatEvents = {
    onRequestId: (id) => (got.id = id),
    onContent: (t) => (got.text += t),
    onReasoning: (t) => (got.reasoning += t),
    onUsage: (n) => (got.tokens = n),
    onWaiting: (place) => waits.push(place),
    onRaw: (line) => raw.push(line),
  };
  const error = await streamChat(
    model,
    [{ role: 'user', content: 'q' }],
    new AbortController().signal,
    on,
  ).then(
    () => undefined,
    (e: unknown) => e as ApiError,
  );
  said = { waits, raw };
  return { ...got, error };
};

beforeEach(() => {
  sent = [];
  useCredentials({ csrfToken: () => 'token-1', onUnauthorized: () => undefined });
});
afterEach(() => vi.unstubAllGlobals());

describe('streamChat', () => {
  test('sends cookie and token, and gives content, reasoning, usage and the request id', async () => {
    serve([
      chunk({ role: 'assistant' }),
      chunk({ reasoning_content: 'hm' }),
      chunk({ content: 'Hel' }),
      chunk({ content: 'lo' }),
      `data: {"choices":[],"usage":{"completion_tokens":2}}\n\ndata: [DONE]\n\n`,
    ]);
    expect(await run('owner/m@v2')).toEqual({
      id: 'req-1',
      text: 'Hello',
      reasoning: 'hm',
      tokens: 2,
      error: undefined,
    });
    const [url, request] = sent[0] ?? ['', {}];
    expect(url).toBe('/v1/chat/completions');
    expect(request).toMatchObject({
      credentials: 'same-origin',
      headers: { 'X-CSRF-Token': 'token-1' },
    });
    expect(JSON.parse(String(request.body))).toMatchObject({ model: 'owner/m@v2', stream: true });
  });

  test('asks for news of the wait, hands them on, and keeps every event as it came', async () => {
    serve([
      ': modeldock position=3 seconds=12\n\n',
      ': ping\n\n: modeldock position=1 seconds=2\n\n',
      'data: {"choices":[{"delta":{"content":"x"}}]}\n\ndata: [DONE]\n\n',
    ]);
    expect((await run()).text).toBe('x');
    expect(sent[0]?.[1]).toMatchObject({ headers: { 'x-modeldock-progress': '1' } });
    expect(said.waits).toEqual([
      { position: 3, seconds: 12 },
      { position: 1, seconds: 2 },
    ]);
    expect(said.raw).toEqual([
      ': modeldock position=3 seconds=12',
      ': ping',
      ': modeldock position=1 seconds=2',
      'data: {"choices":[{"delta":{"content":"x"}}]}',
      'data: [DONE]',
    ]);
    expect(parseWaiting('modeldock position=x seconds=1')).toBeUndefined();
  });

  test('an error inside the stream is an error, with what came before', async () => {
    serve([
      chunk({ content: 'Hel' }),
      'data: {"error":{"message":"engine gone","type":"server_error","code":"upstream_cut"}}\n\n',
    ]);
    const got = await run();
    expect(got.text).toBe('Hel');
    expect(got.error).toMatchObject({ code: 'upstream_cut', message: 'engine gone' });
  });

  test('an end without [DONE] is never a clean end', async () => {
    serve([chunk({ content: 'Hel' })]);
    expect((await run()).error).toMatchObject({ code: 'stream_cut' });
  });

  test('a connection that breaks is said as that, also before anything was read', async () => {
    vi.stubGlobal('fetch', () => {
      const body = new ReadableStream({ start: (c) => c.error(new TypeError('network error')) });
      return Promise.resolve(new Response(body));
    });
    expect((await run()).error).toMatchObject({ code: 'stream_cut', message: 'network error' });
  });

  test('a refusal keeps its words, its code, when to come back, and the request id', async () => {
    serve(['{"error":{"message":"still loading","type":"t","code":"model_loading"}}'], {
      status: 503,
      headers: { 'x-request-id': 'req-2', 'Retry-After': '12' },
    });
    const got = await run();
    expect(got.id).toBe('req-2');
    expect(got.error).toMatchObject({
      status: 503,
      code: 'model_loading',
      message: 'still loading',
      retryAfterSeconds: 12,
    });
  });

  test('what is not JSON in the stream is said, not swallowed', async () => {
    serve(['data: <html>\n\n']);
    expect((await run()).error).toMatchObject({ code: 'stream_cut' });
  });
});

describe('speed', () => {
  test('is measured between the first and the last, in tokens once they are counted', () => {
    const t = { sentAt: 0, firstAt: 100, lastAt: 1100, chunks: 5 };
    expect(firstChunkMs(t)).toBe(100);
    expect(rate(t)).toEqual({ perSecond: 4, unit: 'chunks' });
    expect(rate({ ...t, tokens: 21 })).toEqual({ perSecond: 20, unit: 'tokens' });
  });
  test('is not given where there is too little to measure', () => {
    expect(rate({ sentAt: 0, chunks: 0 })).toBeUndefined();
    expect(rate({ sentAt: 0, firstAt: 5, lastAt: 5, chunks: 9 })).toBeUndefined();
    expect(rate({ sentAt: 0, firstAt: 5, lastAt: 500, chunks: 1 })).toBeUndefined();
    expect([perSecondText(4.25), perSecondText(250.4)]).toEqual(['4.3', '250']);
  });
});

test('models are offered by the shortest name that is not ambiguous, ready ones first', () => {
  const version = (v: string, ready: number) => ({
    version: v,
    requestId: 'r',
    weight: 50,
    replicas: 1,
    readyReplicas: ready,
    queue: 0,
    inFlight: 0,
    endpoints: [],
  });
  const models = [
    { owner: 'team-b', name: 'theirs', versions: [version('v1', 0)] },
    { owner: 'team-a', name: 'mine', versions: [version('v1', 1), version('v2', 0)] },
  ];
  expect(choices(models, 'team-a')).toEqual([
    { value: 'mine', ready: 1, wanted: 2 },
    { value: 'mine@v1', ready: 1, wanted: 1 },
    { value: 'mine@v2', ready: 0, wanted: 1 },
    { value: 'team-b/theirs', ready: 0, wanted: 1 },
  ]);
  expect(choices(models, undefined).map((c) => c.value)).toContain('team-a/mine');
});
