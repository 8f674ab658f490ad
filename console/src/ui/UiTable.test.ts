// @vitest-environment jsdom
import { mount } from '@vue/test-utils';
import { describe, expect, test, vi } from 'vitest';
import { h, nextTick } from 'vue';
import UiTable from './UiTable.vue';

interface Row {
  id: string;
  n: number;
}
const rows = (count: number): Row[] =>
  Array.from({ length: count }, (_, i) => ({ id: `r${i}`, n: (i * 7) % count }));
const columns = [
  { key: 'id', label: 'Id' },
  { key: 'n', label: 'Number', compare: (a: Row, b: Row) => a.n - b.n },
];
const setup = (count: number) =>
  mount(UiTable<Row>, {
    attachTo: document.body,
    props: { rows: rows(count), columns, rowKey: (r: Row) => r.id, label: 'Rows' },
    slots: {
      'cell-id': ({ row }: { row: Row }) => h('a', { href: '#', 'data-row-focus': '' }, row.id),
      'cell-n': ({ row }: { row: Row }) => String(row.n),
    },
  });
const firstCells = (table: ReturnType<typeof setup>) =>
  table.findAll('tbody a').map((a) => a.text());
const focused = () => document.activeElement?.textContent;

describe('UiTable', () => {
  test('sorts by a column head and says so to a screen reader', async () => {
    const table = setup(5);
    const head = table.findAll('th')[1];
    expect(head?.attributes('aria-sort')).toBe('none');
    await head?.find('button').trigger('click');
    expect(head?.attributes('aria-sort')).toBe('ascending');
    expect(firstCells(table)).toEqual(['r0', 'r3', 'r1', 'r4', 'r2']);
    await head?.find('button').trigger('click');
    expect(head?.attributes('aria-sort')).toBe('descending');
    expect(firstCells(table)[0]).toBe('r2');
    table.unmount();
  });

  test('moves the focus by keys, and stays within the list', async () => {
    const table = setup(3);
    table.vm.move(1);
    await nextTick();
    expect(focused()).toBe('r0');
    const press = async (key: string) => {
      await table.find('tbody').trigger('keydown', { key });
      await nextTick();
    };
    await press('ArrowDown');
    expect(focused()).toBe('r1');
    await press('End');
    await press('ArrowDown');
    expect(focused()).toBe('r2');
    await press('Home');
    expect(focused()).toBe('r0');
    table.unmount();
  });

  test("a click on a row opens it; a click on its link is the link's own", async () => {
    const table = setup(2);
    await table.findAll('td')[1]?.trigger('click');
    expect(table.emitted('open')).toEqual([[{ id: 'r0', n: 0 }]]);
    await table.find('tbody a').trigger('click');
    expect(table.emitted('open')).toHaveLength(1);
    table.unmount();
  });

  test('after a jump only the rows in view are drawn at first, then those around them', async () => {
    vi.useFakeTimers();
    const table = setup(5000);
    const box = table.element as HTMLElement;
    const before = table.findAll('tbody a').length;
    box.scrollTop = 60_000;
    await table.trigger('scroll');
    const at = Math.floor(60_000 / 36);
    expect(firstCells(table)[0]).toBe(`r${at}`);
    expect(table.findAll('tbody a').length).toBeLessThan(before);
    vi.advanceTimersByTime(200);
    await nextTick();
    expect(firstCells(table)[0]).toBe(`r${at - 12}`);
    vi.useRealTimers();
    table.unmount();
  });

  test('draws only what is in view of a long list, and tells how long it is', () => {
    const table = setup(5000);
    expect(table.findAll('tbody a').length).toBeLessThan(60);
    expect(table.find('table').attributes('aria-rowcount')).toBe('5001');
    table.unmount();
  });
});
