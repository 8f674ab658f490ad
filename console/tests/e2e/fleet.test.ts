import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launch, signIn, watch } from './browser';
import { startModelDock, until, untilReady, type ModelDock } from './modeldock';

// Three cards of 24 GiB: two models of 16 GiB leave a hole of 8 GiB on two of them.
let dock: ModelDock;
let browser: Browser;
beforeAll(async () => {
  [dock, browser] = await Promise.all([startModelDock('--cards', '3x24576'), launch()]);
  const key = dock.keys['team-a'];
  for (const id of ['first', 'second']) {
    const model = { gpuMemoryMiB: 16384 };
    const made = await dock.call(key, 'POST', '/requests', { id, cost: 1, priority: 50, model });
    expect(made.status).toBe(202);
    await untilReady(dock, key, id);
  }
});
afterAll(async () => {
  await browser?.close();
  await dock?.stop();
});

test('a size is asked for, answered with figures and drawn on the cards', async () => {
  const { page, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, dock.keys['team-a'], 'fleet?view=picture');
  const answer = page.getByTestId('fit');
  const size = page.getByRole('textbox', { name: 'Memory on each card' });

  // By mouse: one card has it in one piece, and the others only in crumbs.
  await size.fill('12 GiB');
  await page.getByRole('button', { name: 'Ask', exact: true }).click();
  await answer.getByText(/^Yes: on \S+, card \d\. 1 card can take 12 GiB; /).waitFor();
  const chosen = page.locator('[data-card] .fit-chosen');
  expect(await chosen.count()).toBe(1);
  await page.locator('[data-card]', { has: page.locator('.fit-chosen') }).hover();
  await page.getByTestId('looked').getByText('it would go here').first().waitFor();

  // What is free altogether is more than asked for, and yet it fits nowhere.
  await page.keyboard.press('Escape');
  await page.locator('main h1').click();
  await page.keyboard.press('/');
  await page.keyboard.press('Control+a');
  await page.keyboard.type('25g');
  await page.keyboard.press('Enter');
  await answer.getByText(/^No: the largest hole is [\d.]+ GiB, on \S+, card \d; /).waitFor();
  await answer.getByText(/As reported: .*largest fragment \d+ MiB/).waitFor();
  expect(await chosen.count()).toBe(0);

  // On several cards at once: two of three have 8 GiB free, and one more.
  await page.keyboard.press('Control+a');
  await page.keyboard.type('10 GiB');
  await page.keyboard.press('Enter');
  await answer.getByText(/^Yes/).waitFor();
  await page.getByRole('combobox', { name: 'How many cards' }).click();
  await page.getByRole('option', { name: 'on 2 cards' }).click();
  await answer.getByText(/^No: at most 1 of 2 cards of one node have 10 GiB free/).waitFor();
  await close();
});

test('an answer can be shared, and changes when a card changes', async () => {
  const key = dock.keys['team-a'];
  const { page, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, key, 'fleet?view=figures&fit=12288&gpus=2');
  const answer = page.getByTestId('fit');
  await answer.getByText(/^No: at most 1 of 2 cards/).waitFor();
  expect(await page.getByText('it would go here').count()).toBe(0);
  await dock.call(key, 'POST', '/requests/second/release');
  await answer.getByText(/^Yes: on \S+, cards \d, \d\. 2 cards can take 12 GiB/).waitFor();
  await page.getByText('it would go here').first().waitFor();
  await page.getByRole('button', { name: 'Clear the question' }).click();
  await until('an empty answer', async () =>
    (await answer.innerText()) === '' ? true : undefined,
  );
  expect(page.url()).not.toContain('fit=');
  await close();
});

test('a size that cannot be read is refused at its field, in the language of the reader', async () => {
  const { page, close } = await watch(browser, dock.url, { locale: 'zh-CN', theme: 'dark' });
  await signIn(page, dock.url, dock.keys['team-b'], 'fleet');
  const size = page.locator('input[name=fit]');
  await size.fill('much');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('请输入大小').waitFor();
  expect(await size.getAttribute('aria-invalid')).toBe('true');
  await size.fill('1');
  await page.keyboard.press('Enter');
  await page
    .getByTestId('fit')
    .getByText(/^放得下/)
    .waitFor();
  await close();
});
