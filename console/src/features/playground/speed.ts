/** What was measured of one answer, in milliseconds of the browser's clock. */
export interface Timing {
  sentAt: number;
  firstAt?: number;
  lastAt?: number;
  chunks: number;
  /** As the engine counted them; absent until (and unless) it says so. */
  tokens?: number;
}

export const firstChunkMs = (t: Timing): number | undefined =>
  t.firstAt === undefined ? undefined : t.firstAt - t.sentAt;

/**
 * Tokens (or, before the engine has counted them, chunks) per second between
 * the first and the last one. Too short a time gives no figure, not a huge one.
 */
export function rate(t: Timing): { perSecond: number; unit: 'tokens' | 'chunks' } | undefined {
  if (t.firstAt === undefined || t.lastAt === undefined) return undefined;
  const seconds = (t.lastAt - t.firstAt) / 1000;
  const made = t.tokens ?? t.chunks;
  if (seconds < 0.05 || made < 2) return undefined;
  return { perSecond: (made - 1) / seconds, unit: t.tokens === undefined ? 'chunks' : 'tokens' };
}

/** One decimal below a hundred. */
export const perSecondText = (n: number) => (n < 100 ? n.toFixed(1) : String(Math.round(n)));
