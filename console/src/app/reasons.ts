import { useI18n } from 'vue-i18n';
import type { Request } from '@/api/client';

export type ReasonTone = 'ok' | 'idle' | 'warn' | 'bad';

const tones: Record<string, ReasonTone> = {
  Available: 'ok',
  Loading: 'idle',
  Draining: 'idle',
  ScaledToZero: 'idle',
  Undelivered: 'idle',
  AwaitingAdmission: 'idle',
  NotYet: 'idle',
  NotCalled: 'idle',
  Stopping: 'idle',
  CancelledWhileWaiting: 'idle',
  ExceedsQuota: 'bad',
  ExceedsPool: 'bad',
  Unplaceable: 'bad',
  ImagePullFailed: 'bad',
  ModelLoadFailed: 'bad',
  CrashLooping: 'bad',
  ProgressDeadlineExceeded: 'bad',
  PortTaken: 'bad',
  NotOwned: 'bad',
  OwnershipConflict: 'bad',
  ReplicaFailure: 'bad',
  NotReady: 'bad',
  NameTaken: 'bad',
  ReleaseBlocked: 'bad',
  Expired: 'bad',
};

/** What a reason means for the reader; one that is not known yet asks for attention. */
export const reasonTone = (code: string): ReasonTone => tones[code] ?? 'warn';

// Their sentences need the figures of the request's standing.
const withFigures = new Set(['QuotaBlocked', 'PoolBlocked', 'ExceedsQuota', 'ExceedsPool']);

/** One sentence for a request's reason, in the reader's language, with figures where there are any. */
export function useReasons() {
  const { t, te, locale } = useI18n({ useScope: 'global' });

  return (request: Request): string => {
    const code = request.reason;
    if (!code) return request.message ?? '';
    const key = `reasons.${code}`;
    // The server's own sentence is English and has the figures.
    if (locale.value === 'en' && request.message) return request.message;
    if (!te(key, 'en')) return request.message ?? code;
    if (withFigures.has(code) && !request.standing) return request.message ?? code;
    return t(key, { ...request.standing, tenant: request.tenant, pool: request.pool });
  };
}
