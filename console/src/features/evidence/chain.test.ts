import { describe, expect, test } from 'vitest';
import type { Evidence, EvidenceStep } from '@/api/client';
import { crossing, mayChange, readChain } from './chain';
import { headline, readFacts, spaced } from './facts';

type Name = EvidenceStep['step'];
const accounts: Record<Name, EvidenceStep['account']> = {
  submitted: 'budget',
  reserved: 'budget',
  delivered: 'delivery',
  children: 'delivery',
  placed: 'delivery',
  device: 'delivery',
  started: 'delivery',
  routable: 'traffic',
  permitted: 'traffic',
  firstChunk: 'traffic',
  deleting: 'release',
  gone: 'release',
  credited: 'release',
};
const path = Object.keys(accounts).slice(0, 10) as Name[];
const doc = (
  status: Partial<Record<Name, EvidenceStep['status']>>,
  more: Partial<Evidence> = {},
  names: Name[] = path,
): Evidence => ({
  id: 'a',
  tenant: 't',
  answers: { budgetSpentOnce: true, modelStarted: true, firstChunkDelivered: true },
  brokenAt: null,
  steps: names.map((step, i) => ({
    seq: i + 1,
    account: accounts[step],
    step,
    status: status[step] ?? 'ok',
    source: 's',
    facts: {},
  })),
  ...more,
});

describe('readChain', () => {
  test('all links hold and all answers are yes: the accounts agree', () => {
    const chain = readChain(doc({}));
    expect(chain).toMatchObject({ verdict: 'agree', holds: 10, broken: null, next: null });
    expect(mayChange(chain)).toBe(false);
  });

  test('success in one account does not make up for an answer that is open', () => {
    const answers = { budgetSpentOnce: true, modelStarted: true, firstChunkDelivered: null };
    const chain = readChain(doc({ firstChunk: 'pending' }, { answers }));
    expect(chain.verdict).toBe('pending');
    expect(chain.next?.step.step).toBe('firstChunk');
    expect(mayChange(chain)).toBe(true);
  });

  test('what comes after the break proves nothing, even if it holds', () => {
    const chain = readChain(
      doc({ started: 'broken', routable: 'pending' }, { brokenAt: 'started' }),
    );
    expect(chain.verdict).toBe('broken');
    expect(chain.broken?.step.seq).toBe(7);
    expect(chain.links.map((l) => l.tone).slice(5)).toEqual([
      'ok',
      'broken',
      'after',
      'after',
      'after',
    ]);
    expect(chain.holds).toBe(6);
  });

  test('a break that the server did not name is a break', () => {
    expect(readChain(doc({ placed: 'broken' })).brokenAt).toBe('placed');
  });

  test('a step that the server named is drawn broken whatever its status says', () => {
    const chain = readChain(doc({}, { brokenAt: 'reserved' }));
    expect(chain.links[1]?.tone).toBe('broken');
    expect(chain.verdict).toBe('broken');
  });

  test('a named step that is not listed is still a break', () => {
    const chain = readChain(doc({}, { brokenAt: 'gone' }));
    expect(chain).toMatchObject({ verdict: 'broken', brokenAt: 'gone', broken: null });
  });

  test('unknown is never ok', () => {
    const chain = readChain(doc({ device: 'unknown' }));
    expect(chain.links[5]?.tone).toBe('unknown');
    expect(chain.holds).toBe(9);
    expect(chain.next?.step.step).toBe('device');
  });

  test('a release is open until the credit, and ended after it', () => {
    const names = Object.keys(accounts) as Name[];
    expect(readChain(doc({ credited: 'pending' }, {}, names)).verdict).toBe('pending');
    expect(readChain(doc({}, {}, names)).verdict).toBe('ended');
  });

  test('links are read in the order of seq, and lines go from the cause to the effect', () => {
    const shuffled = doc({}, {}, Object.keys(accounts) as Name[]);
    shuffled.steps.reverse();
    const chain = readChain(shuffled);
    expect(chain.links.map((l) => l.step.seq)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
    const lines = chain.links.map(crossing);
    expect(lines[1]).toBeNull(); // within the budget
    expect(lines[2]).toEqual({ start: 1, end: 2 }); // budget to delivery
    expect(lines[10]).toEqual({ start: 2, end: 3 }); // traffic back to delivery
    expect(lines[12]).toEqual({ start: 1, end: 2 }); // delivery back to budget
  });
});

describe('facts', () => {
  test('are shown with their units, and nothing is dropped but what is not there', () => {
    const facts = readFacts({
      mib: 18_432,
      freeMiBAtDecision: 512,
      firstChunkMilliseconds: 41.2,
      waitSeconds: 0.25,
      ok: true,
      none: null,
      empty: '',
      list: ['a', 'b'],
      deep: { x: 1 },
    });
    expect(Object.fromEntries(facts.map((f) => [f.key, f.text]))).toEqual({
      mib: '18 GiB',
      freeMiBAtDecision: '512 MiB',
      firstChunkMilliseconds: '41 ms',
      waitSeconds: '0.25 s',
      ok: '✓',
      list: 'a, b',
      deep: '{\n  "x": 1\n}',
    });
    expect(facts.find((f) => f.key === 'deep')?.short).toBe(false);
  });
  test('the headline says first what says most, whatever the order', () => {
    const facts = readFacts({ cost: 1, engine: 'e', model: 'm@v1', submits: 2 });
    expect(headline('submitted', facts).map((f) => f.key)).toEqual(['submits', 'model', 'cost']);
    expect(headline('unheard', facts).map((f) => f.key)).toEqual(['cost', 'engine', 'model']);
  });
  test('a key without a translation is spaced', () =>
    expect(spaced('objectUid_x')).toBe('object uid x'));
});
