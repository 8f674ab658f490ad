import { describe, expect, test } from 'vitest';
import { nextTick, ref } from 'vue';
import type { Request, State } from '@/api/client';
import { countStates, holdBack, keyOf, memoryOf, select, type StateFilter } from './list';
import { useHeldRows } from './useHeldRows';

const request = (id: string, state: State = 'waiting', more: Partial<Request> = {}) =>
  ({
    id,
    tenant: 'team-a',
    state,
    model: { name: `${id}-model`, gpuMemoryMiB: 1024, gpus: 2 },
    ...more,
  }) as Request;
const items = [
  request('a'),
  request('b', 'reserved'),
  request('c', 'waiting', { reason: 'QuotaBlocked' }),
];
const ids = (rows: readonly Request[]) => rows.map((r) => r.id);

test('counts, memory and keys', () => {
  expect(countStates(items)).toEqual({ all: 3, waiting: 2, reserved: 1, released: 0, expired: 0 });
  expect(memoryOf(request('a'))).toBe(2048);
  expect(keyOf({ tenant: 't', id: 'a' })).toBe('t/a');
});

describe('select', () => {
  test('newest first, by state and by text together', () => {
    expect(ids(select(items, 'all', ''))).toEqual(['c', 'b', 'a']);
    expect(ids(select(items, 'waiting', ''))).toEqual(['c', 'a']);
    expect(ids(select(items, 'waiting', ' QUOTA '))).toEqual(['c']);
    expect(ids(select(items, 'reserved', 'b-model'))).toEqual(['b']);
    expect(ids(select(items, 'all', 'team-a'))).toHaveLength(3);
  });
  test('a record that took the place of another is found by what it says now', () => {
    expect(ids(select(items, 'all', 'poolblocked'))).toEqual([]);
    const changed = items.map((r) => (r.id === 'c' ? { ...r, reason: 'PoolBlocked' } : r));
    expect(ids(select(changed, 'all', 'poolblocked'))).toEqual(['c']);
    expect(ids(select(changed, 'all', 'quotablocked'))).toEqual([]);
  });
});

test('holdBack shows what was known and counts the rest', () => {
  const got = holdBack(items, new Set(['team-a/a', 'team-a/c']));
  expect([ids(got.rows), got.held]).toEqual([['a', 'c'], 1]);
});

describe('useHeldRows', () => {
  const setup = (first: Request[]) => {
    const list = ref<readonly Request[]>(first);
    const reading = ref(false);
    const held = useHeldRows(list, ref<StateFilter>('all'), ref(''), reading);
    return { list, reading, ...held };
  };

  test('nothing moves while somebody reads; it comes when asked for, or when they have done', async () => {
    const page = setup([request('a')]);
    page.reading.value = true;
    await nextTick();
    page.list.value = [request('a', 'reserved'), request('b')];
    await nextTick();
    expect(ids(page.rows.value)).toEqual(['a']);
    expect(page.rows.value[0]?.state).toBe('reserved'); // what is shown stays true
    expect(page.held.value).toBe(1);
    page.showHeld();
    expect(ids(page.rows.value)).toEqual(['b', 'a']);
    page.list.value = [...page.list.value, request('c')];
    await nextTick();
    page.reading.value = false;
    await nextTick();
    expect([ids(page.rows.value), page.held.value]).toEqual([['c', 'b', 'a'], 0]);
  });

  test('a page that opens on a request holds nothing back', async () => {
    const page = setup([]);
    page.reading.value = true;
    await nextTick();
    page.list.value = [request('a'), request('b')];
    await nextTick();
    expect([page.rows.value.length, page.held.value]).toEqual([2, 0]);
  });
});
