import type { ModelVersion, Schemas } from '@/api/client';
import { roundTop, type Frame, type Step } from '@/ui/chart';

export type Report = Schemas['ScalingReport'];
export type Decision = Schemas['ScalingDecision'];

/** How near a version is to an answer: with a ready replica, on its way, or asleep. */
export type Warmth = 'hot' | 'waking' | 'asleep';

export function warmthOf(version: ModelVersion): Warmth {
  if (version.readyReplicas > 0) return 'hot';
  return version.replicas > 0 ? 'waking' : 'asleep';
}

const HOUR_MS = 3_600_000;

/** The changes of the number of replicas as a course until now, or nothing where there were none. */
export function historyOf(
  report: Report,
  now: number,
): { steps: Step[]; frame: Frame } | undefined {
  const changes = report.items
    .map((d) => ({ at: Date.parse(d.at), from: d.from, to: d.to }))
    .sort((a, b) => a.at - b.at);
  const [first] = changes;
  if (!first) return undefined;
  // A little of what was before the first change is part of the picture.
  const from = Math.min(now - HOUR_MS / 6, first.at - (now - first.at) * 0.05);
  const steps = [
    { at: from, value: first.from },
    ...changes.map(({ at, to }) => ({ at, value: to })),
  ];
  return {
    steps,
    frame: { from, to: now, top: roundTop([report.max, ...steps.map((s) => s.value)]) },
  };
}

/** A signal with what it asks for; the one that asks for most decides. */
export interface Input {
  metric: string;
  value?: number;
  target: number;
  proposal: number;
  decides: boolean;
}

export function inputsOf(decision: Decision | undefined): Input[] {
  const inputs = decision?.inputs ?? [];
  const known = inputs.filter((i) => i.value !== undefined);
  const most = Math.max(...known.map((i) => i.proposal), -Infinity);
  return inputs.map((i) => ({ ...i, decides: i.value !== undefined && i.proposal === most }));
}

/** Why fewer run than are asked for, in one code; nothing where they are the same. */
export function heldBackBy(report: Report): 'budget' | 'starting' | undefined {
  if (report.running < report.wanted) return 'budget';
  return report.ready < report.running ? 'starting' : undefined;
}
