import type { UsageCourse } from '@/api/client';
import { extent, roundTop, type Frame, type Step } from '@/ui/chart';

/** Over how many hours the use is shown. */
export const spans = ['1', '24', '168', '744'] as const;
export type Span = (typeof spans)[number];

/** A course as the charts take it. */
export interface Course {
  steps: Step[];
  frame: Frame;
  least: number;
  most: number;
  cap: number;
  used: number;
}

/** The courses by name, all over the same time; each on the scale of its own cap. */
export function coursesOf(
  list: readonly UsageCourse[],
  fromIso: string,
  toIso: string,
): Map<string, Course> {
  const from = Date.parse(fromIso);
  const to = Date.parse(toIso);
  return new Map(
    list.map((c) => {
      const steps = c.points.map((p) => ({ at: Date.parse(p.at), value: p.used }));
      const scale = [c.cap, ...steps.map((s) => s.value)];
      const frame = { from, to, top: roundTop(scale) };
      const { least, most } = extent(steps, frame) ?? { least: c.used, most: c.used };
      return [c.name, { steps, frame, least, most, cap: c.cap, used: c.used }];
    }),
  );
}
