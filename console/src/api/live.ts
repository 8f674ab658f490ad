import type { QueryClient } from '@tanstack/vue-query';
import { ref, type Ref } from 'vue';
import { getRequest, type RequestList } from './calls';
import { keys } from './keys';
import type { Request } from './client';

export type LiveState = 'connecting' | 'live' | 'reconnecting' | 'paused';

/** A hint of the server that something changed; the record is read again. */
export interface Hint {
  tenant: string;
  id: string;
  revision?: number;
}

const TOPICS = ['request', 'model', 'node', 'quota', 'ledger'] as const;
export type Topic = (typeof TOPICS)[number];

const SETTLE_MS = 120; // hints come in bursts: one read for each record of a burst
const PATCH_MAX = 8; // more changed records than this: read the list once instead
const HIDDEN_MS = 60_000;
const RETRY_MS = 3_000;

/** Puts records into the list, in one copy: in place if they are there, at the end if they are new. */
export function patchList(
  list: RequestList | undefined,
  ...records: readonly Request[]
): RequestList | undefined {
  if (!list) return list;
  const fresh = new Map(records.map((r) => [`${r.tenant}/${r.id}`, r]));
  let items: Request[] | undefined;
  // From the end, where those that change mostly are.
  for (let at = list.items.length - 1; at >= 0 && fresh.size > 0; at--) {
    const have = list.items[at];
    if (!have) continue;
    const key = `${have.tenant}/${have.id}`;
    const record = fresh.get(key);
    if (!record) continue;
    fresh.delete(key);
    if (have.revision > record.revision) continue; // an older answer that came late
    items ??= list.items.slice();
    items[at] = record;
  }
  if (fresh.size > 0) items = [...(items ?? list.items), ...fresh.values()];
  return items ? { ...list, items } : list;
}

/** Reads a hint; anything else is ignored, the next reset repairs it. */
export function parseHint(data: string): Hint | undefined {
  try {
    const hint = JSON.parse(data) as Partial<Hint> | null;
    if (typeof hint?.id !== 'string' || typeof hint.tenant !== 'string') return undefined;
    return { tenant: hint.tenant, id: hint.id, revision: hint.revision };
  } catch {
    return undefined;
  }
}

/**
 * One event stream for the tab. Hints refresh the query cache; every connect
 * begins with `reset`, after which everything shown is read again. A tab that
 * is hidden for a minute gives its connection back.
 */
export class LiveUpdates {
  readonly state: Ref<LiveState> = ref('connecting');
  /** Since when nothing was heard, in ms since 1970; what is shown may be that old. */
  readonly lostAt: Ref<number | undefined> = ref();
  private source: EventSource | undefined;
  private changed = new Map<string, Hint>();
  private settle: ReturnType<typeof setTimeout> | undefined;
  private hidden: ReturnType<typeof setTimeout> | undefined;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private started = false;

  constructor(private readonly cache: QueryClient) {}

  start(): void {
    if (this.started) return;
    this.started = true;
    document.addEventListener('visibilitychange', this.onVisibility);
    this.connect();
  }

  stop(): void {
    this.started = false;
    document.removeEventListener('visibilitychange', this.onVisibility);
    for (const timer of [this.settle, this.hidden, this.retry]) clearTimeout(timer);
    this.changed.clear();
    this.lostAt.value = undefined;
    this.close();
  }

  private connect(): void {
    this.close();
    const source = new EventSource('/events');
    this.source = source;
    source.addEventListener('open', () => {
      this.state.value = 'live';
      this.lostAt.value = undefined;
    });
    source.addEventListener('reset', () => void this.cache.invalidateQueries());
    for (const topic of TOPICS) {
      source.addEventListener(topic, (e) => this.onHint(topic, e as MessageEvent<string>));
    }
    source.addEventListener('error', () => {
      this.state.value = 'reconnecting';
      this.lostAt.value ??= Date.now();
      // A refused stream is closed for good by the browser: ask again, unless stopped.
      if (source.readyState !== EventSource.CLOSED || !this.started) return;
      clearTimeout(this.retry);
      this.retry = setTimeout(() => this.connect(), RETRY_MS);
    });
  }

  private close(): void {
    this.source?.close();
    this.source = undefined;
  }

  private readonly onVisibility = (): void => {
    clearTimeout(this.hidden);
    if (document.visibilityState === 'hidden') {
      this.hidden = setTimeout(() => {
        this.close();
        this.state.value = 'paused';
        this.lostAt.value ??= Date.now();
      }, HIDDEN_MS);
    } else if (this.started && !this.source) {
      this.state.value = 'connecting';
      this.connect();
    }
  };

  private onHint(topic: Topic, e: MessageEvent<string>): void {
    if (topic === 'request') {
      const hint = parseHint(e.data);
      if (hint) this.changed.set(`${hint.tenant}/${hint.id}`, hint);
      else this.changed.set('?', { tenant: '', id: '' });
    }
    this.stale.add(topic);
    this.settle ??= setTimeout(() => void this.flush(), SETTLE_MS);
  }

  private stale = new Set<Topic>();

  private async flush(): Promise<void> {
    this.settle = undefined;
    const topics = this.stale;
    const hints = [...this.changed.values()];
    this.stale = new Set();
    this.changed = new Map();
    const refresh = (key: readonly unknown[]) =>
      this.cache.invalidateQueries({ queryKey: key as unknown[] });
    if (topics.has('request')) {
      void refresh(keys.tenants);
      void refresh(keys.pools);
      void refresh(keys.usage);
      await this.readChanged(hints);
    }
    if (topics.has('ledger')) void refresh(keys.verify);
    if (topics.has('model')) {
      void refresh(keys.models);
      void refresh(['request']);
    }
    if (topics.has('node') || topics.has('model')) void refresh(keys.nodes);
    if (topics.has('quota')) {
      void refresh(keys.tenants);
      void refresh(keys.pools);
      void refresh(keys.usage);
      void refresh(keys.requests); // the reasons of waiting requests depend on caps
    }
  }

  private async readChanged(hints: Hint[]): Promise<void> {
    for (const h of hints) void this.cache.invalidateQueries({ queryKey: keys.request(h) });
    if (hints.length > PATCH_MAX || hints.some((h) => h.id === '')) {
      await this.cache.invalidateQueries({ queryKey: keys.requests });
      return;
    }
    if (!this.cache.getQueryData(keys.requests)) return;
    try {
      const records = await Promise.all(hints.map((h) => getRequest(h)));
      this.cache.setQueryData<RequestList>(keys.requests, (list) => patchList(list, ...records));
    } catch {
      // One record could not be read: the whole list says what is true.
      await this.cache.invalidateQueries({ queryKey: keys.requests });
    }
  }
}
