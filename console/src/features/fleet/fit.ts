import type { Card, Fit, Node } from '@/api/client';
import type { Block } from './cards';

// "Would a model of this size fit, and where?": the server chooses, as it does
// for a real request; here the answer is counted and drawn.

/** So much memory on each of so many cards of one node. */
export interface Question {
  mib: number;
  gpus: number;
}

const MOST_MIB = 2 ** 40;
export const cardCounts = ['1', '2', '4', '8'] as const;
export type CardCount = (typeof cardCounts)[number];

/** A size as people write it, in MiB: 24 GiB, 24g, 1.5 TiB, 512 MiB, and 24576 for MiB. */
export function readSize(text: string): number | undefined {
  const found = /^(\d{1,13}(?:\.\d{1,3})?)\s*([mgt]?)(?:i?b)?$/i.exec(text.trim());
  if (!found) return undefined;
  const unit = { m: 1, g: 1024, t: 1024 * 1024 }[(found[2] || 'm').toLowerCase()] ?? 1;
  const mib = Math.ceil(Number(found[1]) * unit);
  return mib >= 1 && mib <= MOST_MIB ? mib : undefined;
}

/** What an answer says of a card: the model would go there, or it could. */
export type Mark = 'chosen' | 'fits';

const holds = (card: Card, mib: number) => card.healthy && card.freeMiB >= mib;

/** The cards to mark. Where several are asked for, only those of a node that has enough. */
export function marksOf(nodes: readonly Node[], fit: Fit, { mib }: Question): Map<string, Mark> {
  const answers = new Map(fit.nodes.map((n) => [n.node, n]));
  const marks = new Map<string, Mark>();
  for (const node of nodes) {
    const answer = answers.get(node.node);
    if (!answer?.fits) continue;
    for (const card of node.cards) if (holds(card, mib)) marks.set(card.uuid, 'fits');
    if (fit.node !== node.node) continue;
    for (const card of answer.cards) marks.set(card.uuid, 'chosen');
  }
  return marks;
}

/** The figures behind an answer. */
export interface Figures {
  /** Cards that can take the size now. */
  able: number;
  /** Free memory in all holes, and in those that are too small. */
  free: number;
  crumbs: number;
  /** The largest hole. */
  largest?: { node: string; index: number; mib: number };
  /** The node on which most cards have the size free. */
  best?: { node: string; able: number };
}

export function figuresOf(nodes: readonly Node[], { mib }: Question): Figures {
  const sum: Figures = { able: 0, free: 0, crumbs: 0 };
  for (const node of nodes) {
    let able = 0;
    for (const card of node.cards) {
      if (!card.healthy) continue;
      sum.free += card.freeMiB;
      if (holds(card, mib)) able++;
      else sum.crumbs += card.freeMiB;
      if (card.freeMiB > (sum.largest?.mib ?? -1))
        sum.largest = { node: node.node, index: card.index, mib: card.freeMiB };
    }
    sum.able += able;
    if (able > (sum.best?.able ?? -1)) sum.best = { node: node.node, able };
  }
  return sum;
}

/** The blocks of a marked card: what would be taken stands at the foot of what is free. */
export function withFit(blocks: Block[], mib: number, mark: Mark | undefined): Block[] {
  if (!mark) return blocks;
  return blocks.flatMap((block) => {
    if (block.kind !== 'free') return [block];
    const rest = block.mib - mib;
    const taken: Block = { ...block, key: 'fit', kind: mark, mib: Math.min(mib, block.mib) };
    return rest > 0 ? [taken, { ...block, mib: rest }] : [taken];
  });
}
