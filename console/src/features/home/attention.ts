import type { RouteLocationRaw } from 'vue-router';
import type {
  DiagnosticPart,
  Evidence,
  Node,
  Request,
  ServedModel,
  VerifyReport,
} from '@/api/client';
import { reasonTone } from '@/app/reasons';

/** What kind of trouble, in the order in which it should be looked at. */
export const kinds = ['drift', 'part', 'card', 'failing', 'broken', 'blocked'] as const;
export type Kind = (typeof kinds)[number];

export interface Item {
  kind: Kind;
  key: string;
  /** An id, a name: shown as it is. */
  subject: string;
  /** A code of the server, for words.of('reasons', …). */
  reason?: string;
  /** The server's own sentence. */
  message?: string;
  /** The step of the evidence that is broken. */
  step?: string;
  /** Where it is solved; nothing where that is outside the console. */
  to?: RouteLocationRaw;
}

/** Everything that was read; what the role may not read is left out. */
export interface Sources {
  requests?: readonly Request[];
  evidence?: readonly Evidence[];
  models?: readonly ServedModel[];
  nodes?: readonly Node[];
  ledger?: VerifyReport;
  parts?: readonly DiagnosticPart[];
}

const BLOCKED = new Set(['QuotaBlocked', 'PoolBlocked', 'ExceedsQuota', 'ExceedsPool']);

/** What needs attention now, each with the place where it is solved. */
export function attention(sources: Sources): Item[] {
  const failing = failingStarts(sources.models ?? []);
  const failed = new Set(failing.map((item) => item.key));
  return [
    ...drift(sources.ledger),
    ...parts(sources.parts ?? []),
    ...cards(sources.nodes ?? []),
    ...failing,
    // A model that cannot start breaks its request's evidence as well: say it once.
    ...broken(sources.evidence ?? []).filter((item) => !failed.has(item.key)),
    ...blocked(sources.requests ?? []),
  ];
}

function drift(report: VerifyReport | undefined): Item[] {
  if (!report || (report.clean && !report.older)) return [];
  const to = { name: 'ledger' };
  if (report.older)
    return [{ kind: 'drift', key: 'older', subject: '', message: report.older, to }];
  return report.violations.map((v) => ({
    kind: 'drift',
    key: `${v.invariant} ${v.subject}`,
    subject: `${v.invariant} ${v.subject}`,
    message: v.message,
    to,
  }));
}

const parts = (list: readonly DiagnosticPart[]): Item[] =>
  list
    .filter((p) => p.status !== 'ok')
    .map((p) => ({ kind: 'part', key: p.name, subject: p.name, message: p.reason }));

const cards = (nodes: readonly Node[]): Item[] =>
  nodes.flatMap((node) =>
    node.cards
      .filter((card) => !card.healthy)
      .map((card) => ({
        kind: 'card' as const,
        key: card.uuid,
        subject: `${node.node} · ${card.index}`,
        to: { name: 'fleet', query: { card: card.uuid } },
      })),
  );

/** Models of which no replica is ready, for a reason that does not pass by itself. */
function failingStarts(models: readonly ServedModel[]): Item[] {
  return models.flatMap((m) =>
    m.versions
      .filter(
        (v) => v.replicas > 0 && v.readyReplicas === 0 && reasonTone(v.reason ?? '') === 'bad',
      )
      .map((v) => ({
        kind: 'failing' as const,
        key: `${m.owner}/${v.requestId || m.name}`,
        subject: `${m.owner}/${m.name}@${v.version}`,
        reason: v.reason,
        message: v.message,
        to: { name: 'model', params: { owner: m.owner, name: m.name } },
      })),
  );
}

const broken = (list: readonly Evidence[]): Item[] =>
  list
    .filter((e) => e.brokenAt !== null)
    .map((e) => ({
      kind: 'broken',
      key: `${e.tenant}/${e.id}`,
      subject: `${e.tenant}/${e.id}`,
      reason: e.reason,
      message: e.message,
      step: e.brokenAt ?? undefined,
      to: { name: 'evidence', params: { tenant: e.tenant, id: e.id } },
    }));

const blocked = (requests: readonly Request[]): Item[] =>
  requests
    .filter((r) => r.state === 'waiting' && BLOCKED.has(r.reason ?? ''))
    .map((r) => ({
      kind: 'blocked',
      key: `${r.tenant}/${r.id}`,
      subject: `${r.tenant}/${r.id}`,
      reason: r.reason,
      message: r.message,
      to: { name: 'request', params: { tenant: r.tenant, id: r.id } },
    }));

/** The newest live requests whose evidence is worth reading; so many and no more. */
export function toExplain(requests: readonly Request[], most: number): Request[] {
  return requests
    .filter((r) => r.state === 'reserved' && !r.releaseRequestedAt)
    .slice(-most)
    .reverse();
}
