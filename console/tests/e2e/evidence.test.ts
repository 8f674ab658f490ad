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

test('the whole story by one id: submitted twice, spent once, started, called, released', async () => {
  const key = dock.keys['team-a'];
  const body = { id: 'story', cost: 1, priority: 50 };
  for (let i = 0; i < 2; i++)
    expect((await dock.call(key, 'POST', '/requests', body)).status).toBe(202);
  await untilReady(dock, key, 'story');

  const { page, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, key);
  await page.goto(`${dock.url}/console/evidence/team-a/story`);
  const verdict = page.getByTestId('verdict');
  await verdict.getByText('Nothing is broken').waitFor();
  await verdict.getByText('First chunk delivered').waitFor();
  const answer = (question: string) =>
    page
      .getByRole('list', { name: 'Answers' })
      .locator('li', { hasText: question })
      .locator('p')
      .last();
  expect(await answer('Was the budget spent exactly once?').innerText()).toBe('Yes');
  expect(await answer('Did a caller get the first chunk?').innerText()).toBe('Not yet');
  await page.locator('[data-step=submitted]').getByText('submits 2').waitFor();

  // A call by another client completes the chain on the open page.
  const chat = { model: 'story', stream: true, messages: [{ role: 'user', content: 'hello' }] };
  const called = await dock.call(key, 'POST', '/v1/chat/completions', chat);
  expect(await called.text()).toContain('[DONE]');
  await verdict.getByText('The three accounts agree').waitFor();
  await page.locator('[data-step=firstChunk]').getByRole('button').click();
  await page.locator('[data-step=firstChunk]').getByText('gateway:evidence').waitFor();

  expect((await dock.call(key, 'POST', '/requests/story/release')).status).toBe(202);
  await verdict.getByText('Released and credited').waitFor();
  await page.locator('[data-step=credited]').getByText('credits 1').waitFor();
  await close();
});

test('a blocked request is broken at its reservation, with the figures and a way on', async () => {
  const key = dock.keys['team-b'];
  await dock.call(key, 'POST', '/requests', { id: 'fills', cost: 2, priority: 50 });
  await dock.call(key, 'POST', '/requests', { id: 'blocked', cost: 1, priority: 50 });
  const { page, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, dock.keys.admin);
  await page.goto(`${dock.url}/console/evidence/team-b/blocked`);
  const verdict = page.getByTestId('verdict');
  await verdict.getByText('Broken at “Slots reserved”').waitFor();
  await verdict.getByText('QuotaBlocked').waitFor();
  await verdict.getByText('holds 2 of 2 slots').waitFor();
  await verdict.getByText('Release one of your requests').waitFor();
  await verdict.getByRole('button', { name: 'Show the break' }).click();
  expect(await page.evaluate(() => document.activeElement?.getAttribute('data-step'))).toBe(
    'reserved',
  );
  await close();
});

test('a request that is not there says so', async () => {
  const { page, close } = await watch(browser, dock.url, { expectStatus: [404] });
  await signIn(page, dock.url, dock.keys['team-a']);
  await page.goto(`${dock.url}/console/evidence/team-b/fills`);
  await page.getByRole('alert').getByText('Not found').waitFor();
  await close();
});
