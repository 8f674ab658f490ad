import type { Evidence, EvidenceStep } from '@/api/client';

export type Column = 'budget' | 'delivery' | 'traffic';
export const columns: readonly Column[] = ['budget', 'delivery', 'traffic'];

/** How a link is drawn: `after` comes behind the break and proves nothing any more. */
export type Tone = 'ok' | 'pending' | 'unknown' | 'broken' | 'after';

export interface Link {
  step: EvidenceStep;
  column: Column;
  /** The column of the link before it, which is its cause; null for the first. */
  from: Column | null;
  tone: Tone;
}

export type Verdict = 'agree' | 'ended' | 'pending' | 'broken';

export interface Chain {
  links: Link[];
  verdict: Verdict;
  /** The first broken link, where the server listed it. */
  broken: Link | null;
  /** Its name, also where the server did not list it. */
  brokenAt: string | null;
  /** The first link that is not proven yet, if nothing is broken. */
  next: Link | null;
  /** How many of the links hold. */
  holds: number;
}

/** A release writes into the accounts that it closes: the model goes, then the slots come back. */
export function columnOf(step: EvidenceStep): Column {
  if (step.account !== 'release') return step.account;
  return step.step === 'credited' ? 'budget' : 'delivery';
}

/**
 * Reads the server's document as a chain. The server's brokenAt is believed;
 * a broken step that it did not name is a break all the same, and a step that
 * it named is drawn broken whatever its status says.
 */
export function readChain(doc: Evidence): Chain {
  const steps = [...doc.steps].sort((a, b) => a.seq - b.seq);
  const isBroken = (s: EvidenceStep) => s.status === 'broken' || s.step === doc.brokenAt;
  const breakAt = steps.findIndex(isBroken);
  const links = steps.map((step, i): Link => {
    const before = i > 0 ? steps[i - 1] : undefined;
    return {
      step,
      column: columnOf(step),
      from: before ? columnOf(before) : null,
      tone: toneOf(step, i, breakAt),
    };
  });
  const broken = links[breakAt] ?? null;
  const brokenAt = broken?.step.step ?? doc.brokenAt ?? null;
  return {
    links,
    verdict: verdictOf(doc, steps, brokenAt),
    broken,
    brokenAt,
    next: brokenAt ? null : (links.find((l) => l.tone !== 'ok') ?? null),
    holds: links.filter((l) => l.tone === 'ok').length,
  };
}

function toneOf(step: EvidenceStep, at: number, breakAt: number): Tone {
  if (breakAt >= 0 && at > breakAt) return 'after';
  return at === breakAt ? 'broken' : step.status;
}

function verdictOf(doc: Evidence, steps: EvidenceStep[], brokenAt: string | null): Verdict {
  if (brokenAt) return 'broken';
  const { budgetSpentOnce, modelStarted, firstChunkDelivered } = doc.answers;
  if (steps.some((s) => s.step === 'credited' && s.status === 'ok')) return 'ended';
  const open = steps.some((s) => s.account === 'release');
  if (budgetSpentOnce && modelStarted && firstChunkDelivered && !open) return 'agree';
  return 'pending';
}

/** Whether more facts may still come, so that it is worth looking again. */
export const mayChange = (chain: Chain): boolean =>
  chain.verdict !== 'ended' && chain.links.some((l) => l.tone !== 'ok');

/** The span of grid columns that a link's line crosses, as lines of the three columns (1…4). */
export function crossing(link: Link): { start: number; end: number } | null {
  if (!link.from || link.from === link.column) return null;
  const a = columns.indexOf(link.from) + 1;
  const b = columns.indexOf(link.column) + 1;
  return { start: Math.min(a, b), end: Math.max(a, b) };
}
