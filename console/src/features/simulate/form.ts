import type { Schemas } from '@/api/client';

type Simulate = Schemas['Simulate'];
type Policy = Schemas['SimulatedPolicy'];

export const policyKinds = ['reference-hpa', 'online', 'batch'] as const;
export type PolicyKind = (typeof policyKinds)[number];
export const classes = ['llm', 'vision', 'recommender'] as const;
export type ModelClass = (typeof classes)[number];

/** What is typed of one run. Nothing in a field: as usual for the class. */
export interface PolicyDraft {
  kind: PolicyKind;
  min: string;
  max: string;
  queueDepth: string;
  idleSeconds: string;
}

export interface Draft {
  modelClass: ModelClass;
  min: string;
  max: string;
  coldStartSeconds: string;
  stopSeconds: string;
  objectiveSeconds: string;
  policies: [PolicyDraft, PolicyDraft];
}

const policy = (kind: PolicyKind): PolicyDraft => ({
  kind,
  min: '',
  max: '',
  queueDepth: '',
  idleSeconds: '',
});

export const emptyDraft = (): Draft => ({
  modelClass: 'llm',
  min: '1',
  max: '16',
  coldStartSeconds: '60',
  stopSeconds: '',
  objectiveSeconds: '2',
  policies: [policy('reference-hpa'), policy('online')],
});

/** A figure as typed: a number, nothing, or `bad`. */
export function readNumber(text: string, whole: boolean): number | undefined | 'bad' {
  const typed = text.trim();
  if (typed === '') return undefined;
  if (!(whole ? /^\d{1,6}$/ : /^\d{1,6}(\.\d{1,3})?$/).test(typed)) return 'bad';
  return Number(typed);
}

/** The fields that cannot be read, by their path. */
export function badFields(draft: Draft): string[] {
  const bad = (path: string, text: string, whole: boolean) =>
    readNumber(text, whole) === 'bad' ? [path] : [];
  return [
    ...bad('min', draft.min, true),
    ...bad('max', draft.max, true),
    ...bad('coldStartSeconds', draft.coldStartSeconds, false),
    ...bad('stopSeconds', draft.stopSeconds, false),
    ...bad('objectiveSeconds', draft.objectiveSeconds, false),
    ...draft.policies.flatMap((p, n) =>
      (['min', 'max', 'queueDepth', 'idleSeconds'] as const).flatMap((f) =>
        bad(`policies.${n}.${f}`, p[f], true),
      ),
    ),
  ];
}

const number = (text: string) => {
  const value = readNumber(text, false);
  return value === 'bad' ? undefined : value;
};

/** Only what was given, so that the rest is the server's default. */
function given<T extends object>(values: T): T | undefined {
  const entries = Object.entries(values).filter(([, v]) => v !== undefined);
  return entries.length > 0 ? (Object.fromEntries(entries) as T) : undefined;
}

/** Two runs of one kind are told apart by their number. */
export function namesOf(policies: readonly PolicyDraft[]): string[] {
  return policies.map(({ kind }, at) =>
    policies.filter((p) => p.kind === kind).length > 1 ? `${kind} ${at + 1}` : kind,
  );
}

function policyOf(draft: PolicyDraft, name: string): Policy {
  if (draft.kind === 'reference-hpa') return { name, base: 'reference-hpa' };
  return {
    name,
    base: 'model',
    workload: draft.kind,
    replicas: given({ min: number(draft.min), max: number(draft.max) }),
    scaling: given({
      targets: given({ queueDepth: number(draft.queueDepth) }),
      idleSeconds: number(draft.idleSeconds),
    }),
  };
}

export function bodyOf(draft: Draft, trace: string, name: string): Simulate {
  const names = namesOf(draft.policies);
  return {
    trace,
    name,
    model: {
      class: draft.modelClass,
      replicas: given({ min: number(draft.min), max: number(draft.max) }),
    },
    replica: given({
      coldStartSeconds: number(draft.coldStartSeconds),
      stopSeconds: number(draft.stopSeconds),
      objectiveSeconds: number(draft.objectiveSeconds),
    }),
    policies: draft.policies.map((p, at) => policyOf(p, names[at] ?? p.kind)),
  };
}

/** Seconds as people read them: 48 ms, 1.24 s, 2m 05s. */
export function readSpan(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)}m ${String(whole % 60).padStart(2, '0')}s`;
}
