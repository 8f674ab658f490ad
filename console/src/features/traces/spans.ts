import type { Trace } from '@/api/client';

export const moments = [
  'received',
  'sent',
  'firstByte',
  'firstContent',
  'lastByte',
  'done',
] as const;
export type Moment = (typeof moments)[number];

export interface Point {
  moment: Moment;
  at?: string;
  /** Milliseconds since the call was received; absent if it did not happen. */
  afterMs?: number;
  /** The same of the moment before it that happened: where its bar begins. */
  fromMs?: number;
}

/** The call's moments in order; one that did not happen is listed without a time. */
export function points(trace: Trace): Point[] {
  const start = micros(trace.receivedAt);
  const at: Record<Moment, string | undefined> = {
    received: trace.receivedAt,
    sent: trace.sentAt,
    firstByte: trace.firstByteAt,
    firstContent: trace.firstContentAt,
    lastByte: trace.lastByteAt,
    done: trace.doneAt,
  };
  let before = 0;
  return moments.map((moment) => {
    const iso = at[moment];
    if (!iso) return { moment };
    const afterMs = micros(iso) - start;
    const point = { moment, at: iso, afterMs, fromMs: before };
    before = afterMs;
    return point;
  });
}

/** Milliseconds with the microseconds that Date.parse drops. */
function micros(iso: string): number {
  const digits = /\.(\d+)/.exec(iso)?.[1] ?? '';
  const rest = Number(digits.padEnd(6, '0').slice(3, 6)) / 1000;
  return Date.parse(iso) + (Number.isFinite(rest) ? rest : 0);
}

/** Whether the call is still going on: its record then has no outcome yet. */
export const isRunning = (trace: Trace) => !trace.outcome;

/** Whether the outcome is a fault (red), the caller's own doing (grey) or fine. */
export function outcomeTone(outcome: string): 'ok' | 'idle' | 'bad' {
  if (outcome === 'completed') return 'ok';
  return outcome === 'client_cancelled' ? 'idle' : 'bad';
}
