// @vitest-environment jsdom
import { mount } from '@vue/test-utils';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { defineComponent, h } from 'vue';
import { shortcuts, useShortcuts } from './shortcuts';

const go = vi.fn();
const make = vi.fn();
const Page = defineComponent(() => {
  useShortcuts({ n: make, 'g r': go });
  return () => h('div', [h('input'), h('button')]);
});
let page: ReturnType<typeof mount>;
beforeEach(() => {
  go.mockReset();
  make.mockReset();
  shortcuts.value = 'on';
  page = mount(Page, { attachTo: document.body });
});
afterEach(() => page.unmount());

const press = (key: string, on: EventTarget = document.body, more: KeyboardEventInit = {}) =>
  on.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more }));

test('a key, and two keys in a row', () => {
  press('n');
  press('g');
  press('r');
  expect([make.mock.calls.length, go.mock.calls.length]).toEqual([1, 1]);
});
test('a second key that ends no chord is not taken for a single one', () => {
  press('g');
  press('n');
  expect(make).not.toHaveBeenCalled();
});
test('what is typed into a field belongs to the field', () => {
  press('n', page.find('input').element);
  expect(make).not.toHaveBeenCalled();
  press('n', page.find('button').element);
  expect(make).toHaveBeenCalledOnce();
});
test('keys of the browser are left to it', () => {
  for (const held of [{ ctrlKey: true }, { metaKey: true }, { altKey: true }])
    press('n', document.body, held);
  expect(make).not.toHaveBeenCalled();
});
test('they can be switched off, and end with their page', () => {
  shortcuts.value = 'off';
  press('n');
  shortcuts.value = 'on';
  page.unmount();
  press('n');
  expect(make).not.toHaveBeenCalled();
});
