import type { Key, VerifyReport } from '@/api/client';

/** Whose cap is to be changed; an empty name is a new one. */
export interface CapOf {
  kind: 'tenant' | 'pool';
  name: string;
  used: number;
  cap: number;
}

/** A cap as typed: a whole number of slots that the page can hold exactly, or nothing. */
export function readCap(text: string): number | undefined {
  if (!/^\d{1,16}$/.test(text.trim())) return undefined;
  const cap = Number(text);
  return Number.isSafeInteger(cap) ? cap : undefined;
}

/** What a new cap would do, before it is done. */
export type CapEffect = 'none' | 'raises' | 'lowers' | 'overdrawn';

export function effectOf(of: CapOf, cap: number): CapEffect {
  if (cap === of.cap) return 'none';
  if (cap < of.used) return 'overdrawn';
  return cap > of.cap ? 'raises' : 'lowers';
}

export type KeyState = 'live' | 'expired' | 'revoked';

export function keyState(key: Key, now: number): KeyState {
  if (key.revokedAt) return 'revoked';
  return key.expiresAt && Date.parse(key.expiresAt) <= now ? 'expired' : 'live';
}

/** Live keys first, each group with the newest on top. */
export function sortKeys(keys: readonly Key[], now: number): Key[] {
  const rank = { live: 0, expired: 1, revoked: 2 };
  return keys
    .slice()
    .sort(
      (a, b) =>
        rank[keyState(a, now)] - rank[keyState(b, now)] || b.createdAt.localeCompare(a.createdAt),
    );
}

/** The ledger's verdict: an older copy stands still, and that comes before everything. */
export function verdictOf(report: VerifyReport): 'clean' | 'drift' | 'older' {
  if (report.older) return 'older';
  return report.clean ? 'clean' : 'drift';
}
