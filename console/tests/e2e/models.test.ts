import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launch, signIn, watch } from './browser';
import { startModelDock, untilReady, type ModelDock } from './modeldock';

let dock: ModelDock;
let browser: Browser;
beforeAll(async () => {
  [dock, browser] = await Promise.all([startModelDock(), launch()]);
});
afterAll(async () => {
  await browser?.close();
  await dock?.stop();
});

test('a model with its versions, replicas, speed and output, by the keyboard alone', async () => {
  const key = dock.keys['team-a'];
  const { page, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, key);
  await page.keyboard.press('g');
  await page.keyboard.press('m');
  await page.getByText('No model is served yet').waitFor();

  for (const version of ['v1', 'v2']) {
    const model = { name: 'duo', version, traffic: { weight: version === 'v1' ? 3 : 1 } };
    const body = { id: `duo-${version}`, cost: 1, priority: 50, model };
    expect((await dock.call(key, 'POST', '/requests', body)).status).toBe(202);
    await untilReady(dock, key, `duo-${version}`);
  }
  // It appears by itself, and the row can be reached and opened by keys.
  const row = page.getByRole('row').filter({ hasText: 'duo' });
  await row.getByText('2/2').waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  const drawer = page.getByRole('dialog', { name: 'duo' });
  await drawer.getByText('75 % of calls').waitFor();
  await drawer.getByText('25 % of calls').waitFor();
  const first = drawer.getByRole('region', { name: 'v1' });
  await first.getByRole('table', { name: 'Replicas' }).getByText('ready').waitFor();
  await first.getByText(/127\.0\.0\.1:\d+/).waitFor();
  await first.getByRole('button', { name: 'Show the last lines' }).click();
  await first.locator('pre', { hasText: 'ready' }).waitFor();

  // Why it has so many replicas: this one has a fixed number.
  const why = first.getByTestId('scaling');
  await why.getByText('1 wanted, 1 running, 1 ready; between 1 and 1.').waitFor();
  await why.getByText('The count has not changed yet.').waitFor();
  await first.getByText('hot', { exact: true }).waitFor();

  // A call gives the first proven figure of speed.
  const chat = { model: 'duo@v1', messages: [{ role: 'user', content: 'hi' }], stream: true };
  const answer = await dock.call(key, 'POST', '/v1/chat/completions', chat);
  expect(await answer.text()).toContain('[DONE]');
  await first.getByRole('link', { name: 'Trace of the first call' }).waitFor();
  await page.keyboard.press('Escape');
  await page.waitForURL('**/models');
  await close();
});

test('the latest decision is explained by its signals, and its changes are a course', async () => {
  const { page, close } = await watch(browser, dock.url);
  const ago = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString();
  const change = (minutes: number, from: number, to: number, reason: string) => ({
    at: ago(minutes),
    from,
    to,
    reason,
  });
  await page.route('**/requests/duo-v1/scaling*', async (route) => {
    const real = (await (await route.fetch()).json()) as object;
    const inputs = [
      { metric: 'inference_request_queue_depth', value: 14, target: 10, proposal: 3 },
      { metric: 'kv_cache_utilization_percent', target: 80, proposal: 1 },
    ];
    const latest = {
      ...change(0, 2, 3, 'BudgetBlocked'),
      limitedBy: ['BudgetBlocked'],
      missing: ['kv_cache_utilization_percent'],
      inputs,
    };
    const items = [change(5, 1, 2, 'DesiredWithinRange'), change(30, 0, 1, 'Activated')];
    await route.fulfill({
      json: { ...real, max: 4, wanted: 3, running: 2, ready: 1, latest, items },
    });
  });
  await signIn(page, dock.url, dock.keys['team-a'], 'models/team-a/duo');
  const why = page.getByRole('region', { name: 'v1' }).getByTestId('scaling');
  await why.getByText('3 wanted, 2 running, 1 ready; between 1 and 4.').waitFor();
  await why.getByText('limited by the budget').waitFor();
  await why.getByText(/^Not known: kv_cache_utilization_percent/).waitFor();
  const signals = why.getByRole('table', { name: 'Signals of the latest decision' });
  await signals.getByRole('row', { name: 'Waiting requests 14 10 3' }).waitFor();
  await signals.getByRole('row', { name: 'KV cache, % unknown 80 1' }).waitFor();
  const moment = why.getByRole('slider', { name: 'Moment' });
  await moment.focus();
  expect(await moment.getAttribute('aria-valuetext')).toMatch(/Replicas 2$/);
  await page.keyboard.press('Home');
  expect(await moment.getAttribute('aria-valuetext')).toMatch(/Replicas 0$/);
  await why.getByRole('list', { name: 'Latest changes' }).getByText('0 → 1').waitFor();
  await close();
});

test('a grantee sees that it may call, and not where it runs', async () => {
  const grant = await dock.call(dock.keys['team-a'], 'PUT', '/grants/team-a/duo/team-b');
  expect(grant.status).toBe(200);
  const { page, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, dock.keys['team-b'], 'models/team-a/duo');
  const drawer = page.getByRole('dialog', { name: 'duo' });
  await drawer.getByText('You may call this model').first().waitFor();
  expect(await drawer.getByText('127.0.0.1').count()).toBe(0);
  expect(await drawer.getByRole('table').count()).toBe(0);
  await close();
});

test('a model that is not there says so, and one that cannot start says why', async () => {
  const key = dock.keys['team-b'];
  const dead = { engine: 'custom', command: ['false'], healthPath: '/health' };
  const body = { id: 'dead', cost: 1, priority: 50, model: dead };
  expect((await dock.call(key, 'POST', '/requests', body)).status).toBe(202);
  const { page, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, key, 'models/team-b/nothing');
  await page.getByText('nothing is not served').waitFor();
  await page.keyboard.press('Escape');
  const row = page.getByRole('row').filter({ hasText: 'dead' });
  await row.getByText(/CrashLooping|ModelLoadFailed/).waitFor();

  // The home page leads to it.
  await page.keyboard.press('g');
  await page.keyboard.press('h');
  const failing = page.getByRole('region', { name: 'Models that cannot start' });
  await failing.getByRole('link', { name: 'team-b/dead@v1' }).click();
  await page.getByRole('dialog', { name: 'dead' }).waitFor();
  await close();
});
