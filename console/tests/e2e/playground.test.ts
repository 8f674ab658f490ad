import { chmod, copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launch, signIn, watch } from './browser';
import { startModelDock, until, untilReady, type ModelDock } from './modeldock';

let dock: ModelDock;
let browser: Browser;
let folder: string;
beforeAll(async () => {
  [dock, browser] = await Promise.all([startModelDock(), launch()]);
  // Where the engine's own user can read it.
  folder = await mkdtemp(join(tmpdir(), 'modeldock-engine-'));
  await chmod(folder, 0o755);
  const script = join(folder, 'engine.mjs');
  await copyFile(fileURLToPath(new URL('./engine.mjs', import.meta.url)), script);
  await chmod(script, 0o644);
  const key = dock.keys['team-a'];
  const submitted = await dock.call(key, 'POST', '/requests', {
    id: 'odd',
    cost: 1,
    priority: 50,
    model: {
      engine: 'custom',
      command: [process.execPath, script, '--port', '${PORT}'],
      healthPath: '/health',
      gpuMemoryMiB: 1024,
    },
  });
  expect(submitted.status).toBe(202);
  expect(
    (await dock.call(key, 'POST', '/requests', { id: 'plain', cost: 1, priority: 50 })).status,
  ).toBe(202);
  await Promise.all([untilReady(dock, key, 'odd'), untilReady(dock, key, 'plain')]);
});
afterAll(async () => {
  await browser?.close();
  await dock?.stop();
  await rm(folder, { recursive: true, force: true });
});

async function open(page: Page, model: string) {
  await signIn(page, dock.url, dock.keys['team-a']);
  await page.goto(`${dock.url}/console/playground?model=${model}`);
  await page.getByRole('combobox', { name: 'Model' }).getByText(model, { exact: true }).waitFor();
}
async function ask(page: Page, prompt: string) {
  await page.getByLabel('Prompt').fill(prompt);
  await page.keyboard.press('Enter');
}

test('an answer streams, is timed, and leads to its trace and to the evidence', async () => {
  const { page, close } = await watch(browser, dock.url);
  await open(page, 'plain');
  await ask(page, 'hello');
  await page.getByTestId('first-chunk').waitFor();
  await page.getByRole('button', { name: 'Send' }).waitFor();
  expect(await page.getByTestId('first-chunk').innerText()).toMatch(/^first chunk \d/);
  expect((await page.getByTestId('answer').innerText()).length).toBeGreaterThan(1);
  await page.getByRole('link', { name: /^Trace of request/ }).click();
  await page.getByRole('heading', { name: /^Trace/ }).waitFor();
  await page.getByText('completed', { exact: true }).waitFor();
  await page.getByRole('link', { name: 'plain' }).click();
  await page.getByTestId('verdict').getByText('The three accounts agree').waitFor();
  await close();
});

test('what a model says is text: no markup, no script, no picture from elsewhere', async () => {
  const { page, close } = await watch(browser, dock.url);
  await open(page, 'odd');
  await ask(page, 'hostile');
  const answer = page.getByTestId('answer');
  await answer.locator('strong', { hasText: 'bold' }).waitFor();
  const text = await answer.innerText();
  expect(text).toContain('<img src=x onerror="window.__x=1">');
  expect(text).toContain('<script>window.__x=1</script>');
  expect(await answer.locator('img, svg, script').count()).toBe(0);
  expect(await answer.locator('a[href^="javascript:"]').count()).toBe(0);
  expect(await page.evaluate(() => (window as unknown as { __x?: number }).__x)).toBeUndefined();
  await close();
});

test('a stream that breaks off is an error beside what had come, never a clean end', async () => {
  const { page, close } = await watch(browser, dock.url, {
    expectError: ['ERR_INCOMPLETE_CHUNKED_ENCODING'],
  });
  await open(page, 'odd');
  await ask(page, 'break off');
  await page.getByRole('alert').getByText('The answer broke off').waitFor();
  await page.getByTestId('answer').getByText('agree').waitFor();
  await close();
});

test('stop ends the call at the engine, and the trace says who ended it', async () => {
  const { page, close } = await watch(browser, dock.url);
  await open(page, 'odd');
  await ask(page, 'endless');
  await page.getByTestId('answer').getByText('more more').waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByText('stopped').waitFor();
  const id = await page.getByRole('link', { name: /^Trace of request/ }).innerText();
  const trace = await until('the record of the stopped call', async () => {
    const answer = await dock.call(dock.keys['team-a'], 'GET', `/traces/${id}`);
    if (!answer.ok) return undefined;
    const record = (await answer.json()) as { outcome: string };
    return record.outcome ? record : undefined; // without one it still runs
  });
  expect(trace.outcome).toBe('client_cancelled');
  await close();
});

test('the events are there as they came, and the call as code of one’s own', async () => {
  const { page, context, close } = await watch(browser, dock.url);
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await open(page, 'odd');
  await ask(page, 'hostile');
  await page.getByTestId('answer').locator('strong', { hasText: 'bold' }).waitFor();

  // By keys: open the events of the answer.
  await page.getByText(/^\d+ raw events$/).focus();
  await page.keyboard.press('Enter');
  const raw = await page.getByTestId('raw').innerText();
  expect(raw).toContain('data: {"id":"c"');
  expect(raw).toContain('<img src=x onerror=');
  expect(raw.trimEnd().endsWith('data: [DONE]')).toBe(true);

  await page.getByRole('button', { name: 'Code for this call' }).click();
  const code = page.getByTestId('snippet');
  await code.getByText(`curl -N '${dock.url}/v1/chat/completions'`).waitFor();
  await code.getByText('"content":"hostile"').waitFor();
  expect(await code.innerText()).not.toContain('mdk_');
  await page.getByRole('button', { name: 'Python' }).click();
  await code.getByText('from openai import OpenAI').waitFor();
  await page.getByRole('button', { name: 'Copy' }).click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toContain('model="odd"');
  await close();
});

test('while a model starts, the waiting room says the place and how long', async () => {
  const key = dock.keys['team-b'];
  const model = { args: ['--load-time=12s'] };
  const made = await dock.call(key, 'POST', '/requests', {
    id: 'slow',
    cost: 1,
    priority: 50,
    model,
  });
  expect(made.status, await made.text()).toBe(202);
  await until('the slow model being served', async () => {
    const { items } = (await (await dock.call(key, 'GET', '/models')).json()) as {
      items: unknown[];
    };
    return items.length > 0 ? true : undefined;
  });
  const { page, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, key);
  await page.goto(`${dock.url}/console/playground?model=slow`);
  await page.getByRole('combobox', { name: 'Model' }).getByText('slow', { exact: true }).waitFor();
  await ask(page, 'hello');
  const room = page.getByTestId('waiting-room');
  await room.getByText(/number 1 in the waiting room, about \d+s to go/).waitFor();
  await page.getByTestId('first-chunk').waitFor();
  expect(await room.count()).toBe(0);
  await close();
});
