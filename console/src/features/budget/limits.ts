import type { Limits, Rates, Schemas } from '@/api/client';

export const rateFields = [
  'requestsPerMinute',
  'tokensPerMinute',
  'concurrency',
  'tokensPerDay',
] as const;
export type RateField = (typeof rateFields)[number];
export type MaxClass = NonNullable<Schemas['Limits']['maxClass']>;
export const classes: readonly MaxClass[] = ['interactive', 'default', 'batch'];

/** Every figure by its name in the form; those of each single key stand under perKey. */
export const fields = [
  ...rateFields,
  ...rateFields.map((f) => `perKey.${f}` as const),
  'windowSeconds',
  'maxPriority',
] as const;
export type Field = (typeof fields)[number];

/** The limits as typed. Nothing in a field is no limit. */
export interface Draft {
  figures: Record<Field, string>;
  maxClass: MaxClass | 'any';
}

const MOST_WINDOW = 60;
const MOST_PRIORITY = 100;
/** What a field takes. Zero is no limit for anybody: it could be taken for "nothing at all". */
export const bounds = (field: Field): { min: number; max: number } => {
  if (field === 'maxPriority') return { min: 0, max: MOST_PRIORITY };
  return { min: 1, max: field === 'windowSeconds' ? MOST_WINDOW : Number.MAX_SAFE_INTEGER };
};

const split = (
  field: Field,
): [under: 'perKey' | 'all', name: RateField | 'windowSeconds' | 'maxPriority'] =>
  field.startsWith('perKey.')
    ? ['perKey', field.slice('perKey.'.length) as RateField]
    : ['all', field as RateField];

export function figureOf(limits: Limits, field: Field): number | undefined {
  const [under, name] = split(field);
  const from: Limits = under === 'perKey' ? (limits.perKey ?? {}) : limits;
  return from[name];
}

export function draftOf(limits: Limits): Draft {
  const figures = {} as Draft['figures'];
  for (const field of fields) figures[field] = String(figureOf(limits, field) ?? '');
  return { figures, maxClass: limits.maxClass ?? 'any' };
}

/** A figure as typed: a number, nothing, or `bad`. */
export function readFigure(field: Field, text: string): number | undefined | 'bad' {
  const typed = text.trim();
  if (typed === '') return undefined;
  if (!/^\d{1,16}$/.test(typed)) return 'bad';
  const value = Number(typed);
  const { min, max } = bounds(field);
  return value >= min && value <= max ? value : 'bad';
}

export const badFields = (draft: Draft): Field[] =>
  fields.filter((field) => readFigure(field, draft.figures[field]) === 'bad');

/** What is sent: all of them, because a limit that is left out is taken away. */
export function limitsOf(draft: Draft): Limits {
  const limits: Limits = {};
  const perKey: Rates = {};
  for (const field of fields) {
    const value = readFigure(field, draft.figures[field]);
    if (typeof value !== 'number') continue;
    const [under, name] = split(field);
    if (under === 'perKey') perKey[name as RateField] = value;
    else limits[name] = value;
  }
  if (Object.keys(perKey).length > 0) limits.perKey = perKey;
  if (draft.maxClass !== 'any') limits.maxClass = draft.maxClass;
  return limits;
}

export interface Change {
  field: Field | 'maxClass';
  before: string;
  after: string;
}

/** What a change would do, figure by figure; an empty text is no limit. */
export function changesOf(before: Limits, after: Limits): Change[] {
  const text = (limits: Limits, field: Field) => String(figureOf(limits, field) ?? '');
  const found: Change[] = fields
    .map((field) => ({ field, before: text(before, field), after: text(after, field) }))
    .filter((c) => c.before !== c.after);
  if (before.maxClass !== after.maxClass)
    found.push({ field: 'maxClass', before: before.maxClass ?? '', after: after.maxClass ?? '' });
  return found;
}
