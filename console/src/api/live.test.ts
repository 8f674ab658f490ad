// @vitest-environment jsdom
import { QueryClient } from '@tanstack/vue-query';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { RequestList } from './calls';
import type { Request } from './client';
import { keys } from './keys';
import { LiveUpdates, parseHint, patchList } from './live';

const record = (id: string, revision: number, more: Partial<Request> = {}): Request => ({
  id,
  tenant: 't',
  revision,
  generation: 1,
  cost: 1,
  held: 0,
  fundedReplicas: 0,
  priority: 1,
  state: 'waiting',
  pool: 'default',
  model: {},
  submits: 1,
  createdAt: '',
  expiresAt: '',
  everReady: false,
  readyReplicas: 0,
  ...more,
});

describe('patchList', () => {
  const list: RequestList = { items: [record('a', 2), record('b', 1)], more: false };

  test('replaces in place and appends what is new', () => {
    expect(patchList(list, record('a', 3))?.items.map((r) => [r.id, r.revision])).toEqual([
      ['a', 3],
      ['b', 1],
    ]);
    expect(patchList(list, record('c', 1))?.items.map((r) => r.id)).toEqual(['a', 'b', 'c']);
  });
  test('an older answer that arrives late changes nothing', () => {
    expect(patchList(list, record('a', 1))).toBe(list);
  });
  test('the same id of another tenant is another request', () => {
    expect(patchList(list, record('a', 9, { tenant: 'u' }))?.items).toHaveLength(3);
  });
  test('several at once: those that are there in place, those that are new in their order', () => {
    const got = patchList(list, record('c', 1), record('b', 2), record('a', 1), record('d', 1));
    expect(got?.items.map((r) => [r.id, r.revision])).toEqual([
      ['a', 2],
      ['b', 2],
      ['c', 1],
      ['d', 1],
    ]);
    expect(got?.items[0]).toBe(list.items[0]); // what did not change is not drawn again
  });
  test('without a list there is nothing to patch', () => {
    expect(patchList(undefined, record('a', 1))).toBeUndefined();
  });
});

test('parseHint reads a hint and nothing else', () => {
  expect(parseHint('{"tenant":"t","id":"a","revision":4}')).toEqual({
    tenant: 't',
    id: 'a',
    revision: 4,
  });
  for (const bad of ['', '{}', 'null', '[]', '{"id":1,"tenant":"t"}', 'x'])
    expect(parseHint(bad)).toBeUndefined();
});

/** An event stream that the test speaks into. */
class FakeSource extends EventTarget {
  static readonly CLOSED = 2;
  static all: FakeSource[] = [];
  readyState = 1;
  closed = false;
  constructor(readonly url: string) {
    super();
    FakeSource.all.push(this);
  }
  close() {
    this.closed = true;
    this.readyState = 2;
  }
  say(type: string, data = '{}') {
    this.dispatchEvent(new MessageEvent(type, { data }));
  }
}

describe('LiveUpdates', () => {
  let cache: QueryClient;
  let live: LiveUpdates;
  const asked: string[] = [];
  beforeEach(() => {
    vi.useFakeTimers();
    FakeSource.all = [];
    asked.length = 0;
    vi.stubGlobal('EventSource', FakeSource);
    vi.stubGlobal('fetch', (r: Request & { url: string }) => {
      const url = new URL(r.url);
      asked.push(url.pathname);
      const id = url.pathname.split('/').at(-1) ?? '';
      return Promise.resolve(
        new Response(JSON.stringify(record(id, 5, { state: 'reserved' })), {
          headers: { 'Content-Type': 'application/json' },
        }),
      );
    });
    cache = new QueryClient();
    cache.setQueryData<RequestList>(keys.requests, { items: [record('a', 1)], more: false });
    live = new LiveUpdates(cache);
    live.start();
  });
  afterEach(() => {
    live.stop();
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });
  const source = () => FakeSource.all.at(-1) as FakeSource;
  const list = () => cache.getQueryData<RequestList>(keys.requests)?.items;

  test('a burst of hints about one request reads it once and patches the list', async () => {
    for (let i = 0; i < 5; i++) source().say('request', '{"tenant":"t","id":"a","revision":2}');
    await vi.advanceTimersByTimeAsync(500);
    expect(asked).toEqual(['/requests/a']);
    expect(list()?.[0]).toMatchObject({ id: 'a', revision: 5, state: 'reserved' });
  });

  test('a burst about several requests changes the list once', async () => {
    cache.setQueryData<RequestList>(keys.requests, {
      items: [record('a', 1), record('b', 1)],
      more: false,
    });
    const set = vi.spyOn(cache, 'setQueryData');
    for (const id of ['a', 'b', 'c'])
      source().say('request', `{"tenant":"t","id":"${id}","revision":2}`);
    await vi.advanceTimersByTimeAsync(500);
    expect(list()?.map((r) => [r.id, r.revision])).toEqual([
      ['a', 5],
      ['b', 5],
      ['c', 5],
    ]);
    expect(set).toHaveBeenCalledTimes(1);
  });

  test('many changed requests make the list be read once instead', async () => {
    const invalidate = vi.spyOn(cache, 'invalidateQueries');
    for (let i = 0; i < 20; i++)
      source().say('request', `{"tenant":"t","id":"r${i}","revision":2}`);
    await vi.advanceTimersByTimeAsync(500);
    expect(asked).toEqual([]);
    expect(invalidate).toHaveBeenCalledWith({ queryKey: keys.requests });
  });

  test('every connect begins with reading everything again', () => {
    const invalidate = vi.spyOn(cache, 'invalidateQueries');
    source().say('reset');
    expect(invalidate).toHaveBeenCalledWith();
  });

  test('a stream that the server refused is asked for again; one that was stopped is not', async () => {
    source().readyState = 2;
    source().say('error');
    expect(live.state.value).toBe('reconnecting');
    await vi.advanceTimersByTimeAsync(5000);
    expect(FakeSource.all).toHaveLength(2);
    live.stop();
    expect(source().closed).toBe(true);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(FakeSource.all).toHaveLength(2);
  });

  test('since when nothing is heard is known until it is heard again', () => {
    source().say('open');
    expect(live.lostAt.value).toBeUndefined();
    const now = Date.now();
    source().say('error');
    expect(live.lostAt.value).toBe(now);
    vi.setSystemTime(now + 5_000);
    source().say('error'); // another try failed
    expect(live.lostAt.value).toBe(now);
    source().say('open');
    expect(live.lostAt.value).toBeUndefined();
  });

  test('a tab that is hidden for a minute gives its connection back, and takes a new one when it is seen', async () => {
    const visibility = vi.spyOn(document, 'visibilityState', 'get').mockReturnValue('hidden');
    document.dispatchEvent(new Event('visibilitychange'));
    await vi.advanceTimersByTimeAsync(61_000);
    expect(source().closed).toBe(true);
    expect(live.state.value).toBe('paused');
    visibility.mockReturnValue('visible');
    document.dispatchEvent(new Event('visibilitychange'));
    expect(FakeSource.all).toHaveLength(2);
  });
});
