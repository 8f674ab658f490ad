import { expect, test } from 'vitest';
import { compare, spell, spellChange, type Result } from './compare';
import { badFields, bodyOf, emptyDraft, namesOf, readNumber, readSpan } from './form';

test('what is left empty is left out, so that it is what is usual', () => {
  const draft = emptyDraft();
  draft.min = '';
  draft.coldStartSeconds = '';
  draft.stopSeconds = '6';
  expect(bodyOf(draft, 'csv', 'mine')).toEqual({
    trace: 'csv',
    name: 'mine',
    model: { class: 'llm', replicas: { max: 16 } },
    replica: { stopSeconds: 6, objectiveSeconds: 2 },
    policies: [
      { name: 'reference-hpa', base: 'reference-hpa' },
      {
        name: 'online',
        base: 'model',
        workload: 'online',
        replicas: undefined,
        scaling: undefined,
      },
    ],
  });
});

test('a run of its own lays over the model what was typed', () => {
  const draft = emptyDraft();
  Object.assign(draft.policies[1], {
    kind: 'batch',
    min: '0',
    queueDepth: '4',
    idleSeconds: '300',
  });
  expect(bodyOf(draft, '', '').policies?.[1]).toEqual({
    name: 'batch',
    base: 'model',
    workload: 'batch',
    replicas: { min: 0 },
    scaling: { targets: { queueDepth: 4 }, idleSeconds: 300 },
  });
});

test('two runs of one kind have names of their own', () => {
  const [a, b] = emptyDraft().policies;
  expect(namesOf([a, b])).toEqual(['reference-hpa', 'online']);
  expect(namesOf([b, b])).toEqual(['online 1', 'online 2']);
});

test.each([
  ['', true, undefined],
  ['0', true, 0],
  ['1.5', true, 'bad'],
  ['1.5', false, 1.5],
  ['-1', false, 'bad'],
  ['1e3', false, 'bad'],
])('%j (whole: %s) is read as %s', (text, whole, want) =>
  expect(readNumber(text, whole)).toBe(want),
);

test('fields that cannot be read are named by their path', () => {
  const draft = emptyDraft();
  draft.max = 'x';
  draft.policies[1].queueDepth = '1.5';
  expect(badFields(draft)).toEqual(['max', 'policies.1.queueDepth']);
});

test.each([
  [0.0484, '48 ms'],
  [1.236, '1.24 s'],
  [65, '65.0 s'],
  [125, '2m 05s'],
])('%s s is %s', (seconds, want) => expect(readSpan(seconds)).toBe(want));

const result = (name: string, more: Partial<Result> = {}): Result => ({
  name,
  gpuHours: 10,
  attainment: 0.99,
  late: 4,
  firstChunkSeconds: { p50: 0.1, p95: 1, p99: 2 },
  waitSeconds: { p50: 0, p95: 0, p99: 0 },
  coldStarts: 0,
  directionChanges: 3,
  timeline: [],
  ...more,
});

test('the better run is named for each figure, and none where they are equal', () => {
  const lines = compare([
    result('a'),
    result('b', { gpuHours: 7, attainment: 0.98, coldStarts: 2 }),
  ]);
  const of = (key: string) => lines.find((l) => l.key === key);
  expect(of('gpuHours')).toMatchObject({ best: 1, change: -0.3 });
  expect(of('attainment')).toMatchObject({ best: 0 });
  expect(of('late')?.best).toBeUndefined();
  expect(of('coldStarts')).toMatchObject({ best: 0, values: [0, 2] });
  expect(of('coldStarts')?.change).toBeUndefined(); // nothing is a share of nothing
});

test('figures in their units', () => {
  expect(spell(0.98765, 'share')).toBe('98.77 %');
  expect(spell(12.345, 'hours')).toBe('12.3');
  expect(spell(3, 'count')).toBe('3');
  expect([spellChange(-0.3), spellChange(0.004), spellChange(0), spellChange(undefined)]).toEqual([
    '−30 %',
    '+0.4 %',
    '',
    '',
  ]);
});
