import type { Evidence, ModelVersion, Node, ServedModel } from '@/api/client';
import { reasonTone, type ReasonTone } from '@/app/reasons';

/** One model over all its versions. */
export interface Summary {
  ready: number;
  wanted: number;
  queue: number;
  inFlight: number;
  /** The version that needs attention first. */
  worst: ModelVersion | undefined;
}

export const keyOf = (m: { owner: string; name: string }) => `${m.owner}/${m.name}`;

const severity: Record<ReasonTone, number> = { bad: 3, warn: 2, idle: 1, ok: 0 };
const severityOf = (v: ModelVersion) => (v.reason ? severity[reasonTone(v.reason)] : 0);

export function summaryOf(model: ServedModel): Summary {
  const sum = (of: (v: ModelVersion) => number) => model.versions.reduce((n, v) => n + of(v), 0);
  const worst = model.versions.reduce<ModelVersion | undefined>(
    (found, v) => (!found || severityOf(v) > severityOf(found) ? v : found),
    undefined,
  );
  return {
    ready: sum((v) => v.readyReplicas),
    wanted: sum((v) => v.replicas),
    queue: sum((v) => v.queue),
    inFlight: sum((v) => v.inFlight),
    worst,
  };
}

/**
 * The share of calls that each version gets, in whole percent that sum to 100:
 * what rounding leaves over goes to the largest remainders. Without any weight
 * there is no share.
 */
export function sharesOf(versions: readonly ModelVersion[]): number[] {
  const total = versions.reduce((n, v) => n + v.weight, 0);
  if (total <= 0) return versions.map(() => 0);
  const exact = versions.map((v) => (v.weight * 100) / total);
  const shares = exact.map(Math.floor);
  const left = 100 - shares.reduce((n, s) => n + s, 0);
  exact
    .map((e, at) => ({ at, rest: e - Math.floor(e) }))
    .sort((a, b) => b.rest - a.rest || a.at - b.at)
    .slice(0, left)
    .forEach(({ at }) => (shares[at] = (shares[at] ?? 0) + 1));
  return shares;
}

export interface Replica {
  uid: string;
  /** Ready: the gateway sends calls to it. Placed: it holds a card and is not routable. */
  state: 'ready' | 'placed';
  node?: string;
  cards: string[];
  address?: string;
  inFlight?: number;
}

/**
 * The replicas of one version: those that hold memory on a card, joined by uid
 * with those that the gateway knows. A replica that nobody has placed yet is in
 * neither list and only counts as missing.
 */
export function replicasOf(
  version: ModelVersion,
  owner: string,
  nodes: readonly Node[],
): Replica[] {
  const found = new Map<string, Replica>();
  for (const node of nodes) {
    for (const card of node.cards) {
      for (const a of card.allocations) {
        if (a.tenant !== owner || a.requestId !== version.requestId) continue;
        const replica = found.get(a.uid) ?? {
          uid: a.uid,
          state: 'placed',
          node: node.node,
          cards: [],
        };
        replica.cards.push(String(card.index));
        found.set(a.uid, replica);
      }
    }
  }
  for (const e of version.endpoints) {
    const placed = found.get(e.uid);
    found.set(e.uid, {
      uid: e.uid,
      state: e.ready ? 'ready' : 'placed',
      node: placed?.node ?? e.node,
      cards: placed?.cards ?? (e.card ? [e.card] : []),
      address: e.address,
      inFlight: e.inFlight,
    });
  }
  return [...found.values()];
}

export interface Proof {
  firstChunkMs?: number;
  callId?: string;
  restarts?: number;
  exitCode?: number;
}

/** What the evidence of a version's request says of its speed and of its last failure. */
export function proofOf(evidence: Evidence | undefined): Proof {
  const facts = (step: string) => evidence?.steps.find((s) => s.step === step)?.facts ?? {};
  const figure = (value: unknown) => (typeof value === 'number' ? value : undefined);
  const first = facts('firstChunk');
  const started = facts('started');
  return {
    firstChunkMs: figure(first.firstChunkMilliseconds),
    callId: typeof first.requestId === 'string' ? first.requestId : undefined,
    restarts: figure(started.restarts),
    exitCode: figure(started.exitCode),
  };
}
