import type { ServedModel } from '@/api/client';

export interface Choice {
  /** What goes into "model" of the call. */
  value: string;
  ready: number;
  wanted: number;
}

/**
 * What may be called, in the shortest name that is not ambiguous: the caller's
 * own by name, another tenant's by owner/name, and each version by itself where
 * there are several.
 */
export function choices(models: readonly ServedModel[], tenant: string | undefined): Choice[] {
  const rows = models.flatMap((m) => {
    const name = m.owner === tenant ? m.name : `${m.owner}/${m.name}`;
    const sum = (of: (v: ServedModel['versions'][number]) => number) =>
      m.versions.reduce((n, v) => n + of(v), 0);
    const whole = {
      value: name,
      ready: sum((v) => v.readyReplicas),
      wanted: sum((v) => v.replicas),
    };
    if (m.versions.length < 2) return [whole];
    const each = m.versions.map((v) => ({
      value: `${name}@${v.version}`,
      ready: v.readyReplicas,
      wanted: v.replicas,
    }));
    return [whole, ...each];
  });
  return rows.sort(
    (a, b) => Number(b.ready > 0) - Number(a.ready > 0) || a.value.localeCompare(b.value),
  );
}
