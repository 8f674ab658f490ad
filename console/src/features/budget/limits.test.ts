import { expect, test } from 'vitest';
import { badFields, bounds, changesOf, draftOf, limitsOf, readFigure } from './limits';

const all = {
  requestsPerMinute: 600,
  tokensPerMinute: 50_000,
  concurrency: 8,
  tokensPerDay: 1_000_000,
  perKey: { concurrency: 2 },
  windowSeconds: 10,
  maxPriority: 0,
  maxClass: 'batch' as const,
};

test('what is shown is what is sent: nothing is lost, and nothing is made up', () => {
  expect(limitsOf(draftOf(all))).toEqual(all);
  expect(limitsOf(draftOf({}))).toEqual({});
});

test.each([
  ['requestsPerMinute', '', undefined],
  ['requestsPerMinute', ' 5 ', 5],
  ['requestsPerMinute', '0', 'bad'],
  ['requestsPerMinute', '1.5', 'bad'],
  ['requestsPerMinute', '-1', 'bad'],
  ['requestsPerMinute', '9007199254740993', 'bad'],
  ['windowSeconds', '61', 'bad'],
  ['maxPriority', '0', 0],
  ['maxPriority', '101', 'bad'],
  ['perKey.concurrency', '3', 3],
] as const)('%s takes %j as %s', (field, text, want) => {
  expect(readFigure(field, text)).toBe(want);
});

test('a priority of zero is a limit', () => {
  expect(bounds('maxPriority').min).toBe(0);
  expect(draftOf({ maxPriority: 0 }).figures.maxPriority).toBe('0');
});

test('fields that cannot be read are named', () => {
  const draft = draftOf(all);
  draft.figures.concurrency = 'many';
  draft.figures['perKey.tokensPerDay'] = '0';
  expect(badFields(draft)).toEqual(['concurrency', 'perKey.tokensPerDay']);
});

test('a change is told figure by figure', () => {
  const after = { ...all, concurrency: 16, perKey: undefined, maxClass: undefined };
  expect(changesOf(all, after)).toEqual([
    { field: 'concurrency', before: '8', after: '16' },
    { field: 'perKey.concurrency', before: '2', after: '' },
    { field: 'maxClass', before: 'batch', after: '' },
  ]);
  expect(changesOf(all, all)).toEqual([]);
});
