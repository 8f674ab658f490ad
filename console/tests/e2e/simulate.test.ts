import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launch, signIn, watch } from './browser';
import { startModelDock, type ModelDock } from './modeldock';

const PATIENCE_MS = 90_000;

let dock: ModelDock;
let browser: Browser;
let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'modeldock-traces-'));
  [dock, browser] = await Promise.all([startModelDock(), launch()]);
});
afterAll(async () => {
  await browser?.close();
  await dock?.stop();
  await rm(folder, { recursive: true, force: true });
});

test('two policies are replayed over the same calls and shown side by side', async () => {
  const { page, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, dock.keys['team-a'], 'simulate');
  await page.getByText('Nothing was replayed yet').waitFor();
  const shown = { timeout: PATIENCE_MS };

  // By mouse, with what is proposed.
  await page.getByRole('button', { name: 'Run both' }).first().click();
  const table = page.getByRole('table', { name: 'Results' });
  await table.waitFor(shown);
  await table.getByRole('columnheader', { name: 'reference-hpa' }).waitFor();
  const hours = table.getByRole('row', { name: /^GPU hours/ });
  expect(await hours.getByRole('cell').count()).toBe(3);
  const moment = page.getByRole('slider', { name: 'Moment of the trace' });
  await moment.focus();
  await page.keyboard.press('Home');
  expect(await moment.getAttribute('aria-valuetext')).toMatch(
    /^0s: reference-hpa \d+, online \d+$/,
  );

  // A figure that is none is refused at its field, and nothing is sent.
  const sleeps = page.getByRole('group', { name: 'Run 2' }).getByLabel('Sleeps after');
  await sleeps.fill('soon');
  await page.keyboard.press('Enter');
  await page.getByText('A number, or empty.').waitFor();
  expect(await sleeps.evaluate((e) => e === document.activeElement)).toBe(true);
  await sleeps.fill('');
  await close();
});

test('a file of one’s own is read here and replayed, and one that is none is refused', async () => {
  const good = join(folder, 'calls.csv');
  const lines = Array.from({ length: 50 }, (_, n) => `${n * 1000},100,50`);
  await writeFile(good, `timestamp_ms,input_length,output_length\n${lines.join('\n')}\n`);
  const bad = join(folder, 'other.csv');
  await writeFile(bad, 'name,age\nx,1\n');
  const { page, close } = await watch(browser, dock.url, { theme: 'dark', locale: 'zh-CN' });
  await signIn(page, dock.url, dock.keys.admin, 'simulate');
  await page.getByRole('combobox', { name: '回放内容' }).click();
  await page.getByRole('option', { name: '自己的文件' }).click();
  await page.locator('main form').getByRole('button').last().dispatchEvent('click');
  await page.getByText('请选择文件；空文件里没有调用。').waitFor();
  const file = page.locator('input[type=file]');
  await file.setInputFiles(bad);
  await page.getByText(/首行不是调用记录的表头/).waitFor();
  await file.setInputFiles(good);
  await page.getByRole('button', { name: '运行两者' }).first().click();
  await page.getByText('calls.csv 的 50 次调用').waitFor({ timeout: PATIENCE_MS });
  await close();
});

test('a server without the simulator is believed, and what it refuses is said', async () => {
  const { page, close } = await watch(browser, dock.url, { expectStatus: [501, 400, 503] });
  let answer = { status: 501, code: 'not_implemented', message: 'not built yet' };
  await page.route(`${dock.url}/simulate`, (route) =>
    route.request().method() === 'POST'
      ? route.fulfill({ status: answer.status, json: { error: answer } })
      : route.continue(),
  );
  await signIn(page, dock.url, dock.keys.admin, 'simulate');
  const run = page.getByRole('button', { name: 'Run both' }).first();
  await run.click();
  await page.getByText('This ModelDock cannot simulate yet').waitFor();
  answer = { status: 503, code: 'unavailable', message: 'another simulation is under way' };
  await run.click();
  await page.getByRole('alert').getByText('another simulation is under way').first().waitFor();
  await close();
});
