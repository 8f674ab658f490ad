import { clock, mib, ms, span } from '@/app/format';

/** One fact as shown: the server's key and the value in words. */
export interface Fact {
  key: string;
  text: string;
  /** Whether it is a plain value that fits on one line. */
  short: boolean;
}

const SHORT = 40;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/;

/** The facts of a step; nothing is dropped but what is not there. */
export function readFacts(facts: Record<string, unknown>): Fact[] {
  return Object.entries(facts)
    .filter(([, value]) => value !== null && value !== undefined && value !== '')
    .map(([key, value]) => {
      const text = words(key, value);
      const plain = typeof value !== 'object' || Array.isArray(value);
      return { key, text, short: plain && text.length <= SHORT && !text.includes('\n') };
    });
}

// What says most about each step, first things first; the server sends facts
// in no order that means anything.
const first: Record<string, readonly string[]> = {
  submitted: ['submits', 'model', 'cost'],
  reserved: ['debits', 'slots', 'pool', 'need', 'tenantUsed', 'tenantCap'],
  delivered: ['name', 'attempts'],
  children: ['replicas', 'wanted'],
  placed: ['node', 'mib', 'freeMiBAtDecision'],
  device: ['cardModel', 'isolation'],
  started: ['engineReports', 'ready', 'restarts', 'exitCode'],
  routable: ['endpoints', 'address'],
  permitted: ['liveKeys', 'grantees'],
  firstChunk: ['firstChunkMilliseconds', 'caller', 'status'],
};
const HEADLINE = 3;

/** The few facts that stand under a step's name before it is opened. */
export function headline(step: string, facts: readonly Fact[]): Fact[] {
  const wanted = first[step] ?? [];
  const short = facts.filter((f) => f.short);
  const chosen = wanted.flatMap((key) => short.filter((f) => f.key === key));
  return (chosen.length > 0 ? chosen : short).slice(0, HEADLINE);
}

function words(key: string, value: unknown): string {
  if (typeof value === 'number') return figure(key, value);
  if (typeof value === 'boolean') return value ? '✓' : '✗';
  if (typeof value === 'string') return TIME.test(value) ? clock(value) : value;
  if (Array.isArray(value) && value.every((v) => typeof v !== 'object')) return value.join(', ');
  return JSON.stringify(value, null, 2);
}

function figure(key: string, value: number): string {
  if (/^mib$|MiB/.test(key)) return mib(value);
  if (/Milliseconds$/.test(key)) return ms(value);
  if (/Seconds$/.test(key)) return value < 10 ? `${Number(value.toFixed(3))} s` : span(value);
  return String(value);
}

/** A key that has no translation yet, as words: objectUid becomes "object uid". */
export const spaced = (key: string) =>
  key
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/_/g, ' ')
    .toLowerCase();
