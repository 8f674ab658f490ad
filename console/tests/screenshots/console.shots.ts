import { mkdir } from 'node:fs/promises';
import { hostname } from 'node:os';
import { fileURLToPath } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launch, signIn, watch } from '../e2e/browser';
import { startModelDock, until, untilReady, type ModelDock } from '../e2e/modeldock';

// A small platform with something of everything: models that run, one with two
// versions, one that cannot start, requests that are blocked, a call.
const images = fileURLToPath(new URL('../../../docs/images', import.meta.url));

let dock: ModelDock;
let browser: Browser;
let call = '';

beforeAll(async () => {
  await mkdir(images, { recursive: true });
  [dock, browser] = await Promise.all([startModelDock('--cards', '12x24576'), launch()]);
  await furnish();
});
afterAll(async () => {
  await browser?.close();
  await dock?.stop();
});

const models = [
  { tenant: 'team-a', id: 'qwen2.5-7b', mib: 15360, min: 3 },
  { tenant: 'team-a', id: 'bge-reranker', mib: 2048, min: 2 },
  { tenant: 'team-a', id: 'whisper-large', mib: 6144, min: 2 },
  { tenant: 'team-b', id: 'mixtral-8x7b', mib: 22528, min: 2 },
  { tenant: 'team-b', id: 'llama-3.1-8b', mib: 12288, min: 3 },
  { tenant: 'team-b', id: 'clip-vit-b32', mib: 1536, min: 3 },
] as const;

async function submit(tenant: 'team-a' | 'team-b', body: object): Promise<void> {
  const answer = await dock.call(dock.keys[tenant], 'POST', '/requests', body);
  expect(answer.status, await answer.text()).toBe(202);
}

async function furnish(): Promise<void> {
  const { admin } = dock.keys;
  await dock.call(admin, 'PUT', '/pools/default', { cap: 32 });
  await dock.call(admin, 'PUT', '/tenants/team-a/quota', { cap: 12 });
  await dock.call(admin, 'PUT', '/tenants/team-b/quota', { cap: 8 });
  await dock.call(admin, 'PUT', '/tenants/team-b/limits', {
    requestsPerMinute: 600,
    tokensPerMinute: 50_000,
    perKey: { concurrency: 4 },
    maxPriority: 80,
    maxClass: 'default',
  });
  for (const { tenant, id, mib, min } of models) {
    const model = { gpuMemoryMiB: mib, replicas: { min, max: min } };
    await submit(tenant, { id, cost: 1, priority: 60, model });
  }
  const next = { name: 'qwen2.5-7b', version: 'v2', traffic: { weight: 25 }, gpuMemoryMiB: 15360 };
  await submit('team-a', { id: 'qwen2.5-7b-next', cost: 1, priority: 60, model: next });
  const dead = { engine: 'custom', command: ['false'], healthPath: '/health', gpuMemoryMiB: 8192 };
  await submit('team-a', { id: 'phi-4-broken', cost: 1, priority: 50, model: dead });
  await submit('team-b', { id: 'deepseek-v3', cost: 2, priority: 40 });
  await submit('team-b', { id: 'llama-3.1-405b', cost: 16, priority: 40 });
  for (const { tenant, id } of models) await untilReady(dock, dock.keys[tenant], id);
  await dock.call(dock.keys['team-a'], 'PUT', '/grants/team-a/qwen2.5-7b/team-b');

  const key = dock.keys['team-a'];
  const messages = [{ role: 'user', content: 'Which three accounts does ModelDock keep?' }];
  const chat = { model: 'bge-reranker', stream: true, messages };
  const answer = await dock.call(key, 'POST', '/v1/chat/completions', chat);
  await answer.text();
  call = await until('the first chunk in the evidence', async () => {
    const evidence = await dock.call(key, 'GET', '/requests/bge-reranker/evidence');
    const { steps } = (await evidence.json()) as {
      steps: { step: string; facts: { requestId?: string } }[];
    };
    return steps.find((s) => s.step === 'firstChunk')?.facts.requestId;
  });
}

interface Shot {
  name: string;
  path: () => string;
  ready: (page: Page) => Promise<unknown>;
}

/** The name of the machine that takes the pictures says nothing to a reader: it becomes node-1. */
const nameNode = (page: Page) =>
  page.evaluate((own) => {
    const name = new RegExp(`(?<![\\w.-])${own.replaceAll('.', '\\.')}(?![\\w.-])`, 'g');
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode())
      text.nodeValue = text.nodeValue?.replace(name, 'node-1') ?? '';
  }, hostname());

async function ask(page: Page): Promise<void> {
  await page.locator('main textarea').fill('Which three accounts does ModelDock keep?');
  await page.locator('main button[type=submit]:enabled').waitFor(); // the models are known
  await page.keyboard.press('Enter');
  await page.getByTestId('first-chunk').waitFor();
  await page.getByTestId('answer').waitFor();
  await page.locator('main button[type=submit]').waitFor(); // the answer is complete
}

async function replay(page: Page): Promise<void> {
  await page.locator('main header button').click();
  await page.locator('main table').waitFor();
}

const row = (p: Page) => p.locator('main tbody tr').first().waitFor();
const shots: Shot[] = [
  {
    name: 'home',
    path: () => 'home',
    ready: (p) => p.locator('main header p', { hasText: /\d/ }).waitFor(),
  },
  { name: 'requests', path: () => 'requests', ready: row },
  {
    name: 'request',
    path: () => 'requests/team-b/deepseek-v3',
    ready: (p) => p.getByRole('meter').first().waitFor(),
  },
  {
    name: 'evidence',
    path: () => 'evidence/team-a/bge-reranker',
    ready: (p) => p.getByTestId('verdict').waitFor(),
  },
  {
    name: 'evidence-broken',
    path: () => 'evidence/team-a/phi-4-broken',
    ready: (p) => p.locator('[data-broken]').waitFor(),
  },
  {
    name: 'trace',
    path: () => `traces/${call}`,
    ready: (p) => p.locator('main h2').first().waitFor(),
  },
  { name: 'models', path: () => 'models', ready: row },
  {
    name: 'model',
    path: () => 'models/team-a/qwen2.5-7b',
    ready: (p) => p.getByRole('dialog').locator('table').nth(1).waitFor(),
  },
  {
    name: 'fleet',
    path: () => 'fleet?view=picture&fit=12288',
    ready: async (p) => {
      await p.getByTestId('fit').locator('p').waitFor();
      await p.locator('[data-card]:has(span + span + span)').first().hover();
    },
  },
  {
    name: 'fleet-figures',
    path: () => 'fleet?view=figures',
    ready: (p) => p.locator('main section').first().waitFor(),
  },
  { name: 'playground', path: () => 'playground?model=bge-reranker&owner=team-a', ready: ask },
  { name: 'budget', path: () => 'budget', ready: (p) => p.locator('main table').nth(2).waitFor() },
  { name: 'limits', path: () => 'budget/limits', ready: row },
  { name: 'simulate', path: () => 'simulate', ready: replay },
  { name: 'keys', path: () => 'budget/keys', ready: row },
  { name: 'grants', path: () => 'budget/grants', ready: row },
  {
    name: 'ledger',
    path: () => 'budget/ledger',
    ready: (p) => p.getByTestId('ledger-verdict').waitFor(),
  },
];

for (const locale of ['en', 'zh-CN'] as const) {
  for (const theme of ['light', 'dark'] as const) {
    test(`${locale}, ${theme}`, async () => {
      const { page, close } = await watch(browser, dock.url, { theme, locale });
      await page.setViewportSize({ width: 1280, height: 800 });
      await page.goto(`${dock.url}/console/`);
      await page.locator('input[name=key]').waitFor();
      const file = (name: string) => `${images}/${name}-${theme}-${locale}.png`;
      await page.screenshot({ path: file('signin') });
      await signIn(page, dock.url, dock.keys.admin);
      for (const { name, path, ready } of shots) {
        await page.goto(`${dock.url}/console/${path()}`);
        await ready(page);
        await page.evaluate(() =>
          Promise.all(document.getAnimations().map((a) => a.finished.catch(() => null))),
        );
        await nameNode(page);
        await page.screenshot({ path: file(name) });
      }
      await close();
    });
  }
}
