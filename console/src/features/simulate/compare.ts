import type { Schemas } from '@/api/client';
import { readSpan } from './form';

export type Result = Schemas['SimulationResult'];

/** One line of the comparison. */
export interface Metric {
  key: string;
  unit: 'count' | 'hours' | 'share' | 'seconds';
  better: 'lower' | 'higher';
  values: number[];
  /** Index of the better run; none where they are equal. */
  best?: number;
  /** By how much the last run differs from the first, as a share of the first. */
  change?: number;
}

const wanted: {
  key: string;
  unit: Metric['unit'];
  better: Metric['better'];
  of: (r: Result) => number;
}[] = [
  { key: 'gpuHours', unit: 'hours', better: 'lower', of: (r) => r.gpuHours },
  { key: 'attainment', unit: 'share', better: 'higher', of: (r) => r.attainment },
  { key: 'late', unit: 'count', better: 'lower', of: (r) => r.late },
  { key: 'firstChunkP50', unit: 'seconds', better: 'lower', of: (r) => r.firstChunkSeconds.p50 },
  { key: 'firstChunkP95', unit: 'seconds', better: 'lower', of: (r) => r.firstChunkSeconds.p95 },
  { key: 'firstChunkP99', unit: 'seconds', better: 'lower', of: (r) => r.firstChunkSeconds.p99 },
  { key: 'waitP99', unit: 'seconds', better: 'lower', of: (r) => r.waitSeconds.p99 },
  { key: 'coldStarts', unit: 'count', better: 'lower', of: (r) => r.coldStarts },
  { key: 'directionChanges', unit: 'count', better: 'lower', of: (r) => r.directionChanges },
];

/** The figures of the runs side by side, and which is better. */
export function compare(results: readonly Result[]): Metric[] {
  return wanted.map(({ key, unit, better, of }) => {
    const values = results.map(of);
    const [first] = values;
    const last = values.at(-1);
    const metric: Metric = { key, unit, better, values };
    const best = better === 'lower' ? Math.min(...values) : Math.max(...values);
    if (values.some((v) => v !== best)) metric.best = values.indexOf(best);
    if (values.length > 1 && first && last !== undefined) metric.change = (last - first) / first;
    return metric;
  });
}

/** A figure in its unit. */
export function spell(value: number, unit: Metric['unit']): string {
  if (unit === 'count') return String(value);
  if (unit === 'hours') return value.toFixed(value < 10 ? 2 : 1);
  if (unit === 'share') return `${(value * 100).toFixed(2)} %`;
  return readSpan(value);
}

/** −12 %, +0.4 %; nothing where there is no change. */
export function spellChange(change: number | undefined): string {
  if (change === undefined || change === 0) return '';
  const percent = change * 100;
  const text = Math.abs(percent) < 10 ? percent.toFixed(1) : percent.toFixed(0);
  return `${change > 0 ? '+' : ''}${text.replace('-', '−')} %`;
}
