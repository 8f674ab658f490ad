// @vitest-environment jsdom
import { VueQueryPlugin } from '@tanstack/vue-query';
import { flushPromises, mount } from '@vue/test-utils';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { i18n } from '@/app/i18n';
import SubmitDrawer from './SubmitDrawer.vue';

const sent: unknown[] = [];
let answer: () => Response;
const json = (status: number, body: unknown) =>
  new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } });

beforeEach(() => {
  sent.length = 0;
  vi.stubGlobal('fetch', async (request: Request) => {
    if (request.method === 'GET') return json(200, { items: [], next: '' });
    sent.push(await request.json());
    return answer();
  });
});
afterEach(() => {
  vi.unstubAllGlobals();
  document.body.innerHTML = '';
});

/** The drawer is drawn at the end of the body. */
async function open() {
  const drawer = mount(SubmitDrawer, {
    global: { plugins: [i18n, VueQueryPlugin] },
    attachTo: document.body,
  });
  await flushPromises();
  const input = (name: string) =>
    document.querySelector<HTMLInputElement>(`[name="${name}"]`) as HTMLInputElement;
  const type = async (name: string, value: string) => {
    input(name).value = value;
    input(name).dispatchEvent(new Event('input', { bubbles: true }));
    await flushPromises();
  };
  const send = async () => {
    document
      .querySelector('form')
      ?.dispatchEvent(new Event('submit', { bubbles: true, cancelable: true }));
    await flushPromises();
  };
  const errorOf = (name: string) => {
    const id = input(name).getAttribute('aria-describedby')?.split(' ')[0];
    return input(name).getAttribute('aria-invalid') === 'true' && id
      ? document.getElementById(id)?.textContent
      : undefined;
  };
  return { drawer, input, type, send, errorOf };
}

test('nothing is sent while a field is wrong, and the first wrong one has the focus', async () => {
  const { drawer, type, send, errorOf, input } = await open();
  await type('cost', '0');
  await send();
  expect(sent).toEqual([]);
  expect(errorOf('id')).toContain('Needed');
  expect(errorOf('cost')).toContain('1 to 1000000');
  expect(document.activeElement).toBe(input('id'));
  drawer.unmount();
});

test("the server's word on a field stands at the field until it is changed", async () => {
  answer = () =>
    json(400, {
      error: { code: 'invalid_request', message: 'priority must be at most 10', field: 'priority' },
    });
  const { drawer, type, send, errorOf, input } = await open();
  await type('id', 'demo');
  await send();
  expect(sent).toHaveLength(1);
  expect(errorOf('priority')).toContain('priority must be at most 10');
  expect(document.activeElement).toBe(input('priority'));
  await type('priority', '5');
  expect(errorOf('priority')).toBeUndefined();
  drawer.unmount();
});

test('an error of no field that the form shows stands above it, with its code', async () => {
  answer = () =>
    json(503, { error: { code: 'unavailable', message: 'the ledger cannot answer right now' } });
  const { drawer, type, send } = await open();
  await type('id', 'demo');
  await send();
  const alert = document.querySelector('form [role=alert]')?.textContent;
  expect(alert).toContain('the ledger cannot answer right now');
  expect(alert).toContain('unavailable');
  expect(drawer.emitted('submitted')).toBeUndefined();
  drawer.unmount();
});

test('an accepted request is reported with the tenant that the server gave', async () => {
  answer = () =>
    json(202, { id: 'demo', tenant: 'team-a', state: 'waiting', submits: 1, revision: 1 });
  const { drawer, type, send } = await open();
  await type('id', 'demo');
  await send();
  expect(drawer.emitted('submitted')).toEqual([[{ tenant: 'team-a', id: 'demo' }]]);
  drawer.unmount();
});
