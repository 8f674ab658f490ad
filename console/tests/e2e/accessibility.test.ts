import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { axe, launch, signIn, watch } from './browser';
import { startModelDock, untilReady, type ModelDock } from './modeldock';

let dock: ModelDock;
let browser: Browser;
beforeAll(async () => {
  [dock, browser] = await Promise.all([startModelDock(), launch()]);
  const key = dock.keys['team-a'];
  for (const body of [
    { id: 'runs', cost: 2, priority: 50 },
    { id: 'waits', cost: 1, priority: 50 },
    { id: 'never', cost: 3, priority: 50 },
  ]) {
    expect((await dock.call(key, 'POST', '/requests', body)).status).toBe(202);
  }
  await dock.call(key, 'POST', '/requests/never/release');
  await dock.call(key, 'PUT', '/grants/team-a/runs/team-b');
  await untilReady(dock, key, 'runs');
});
afterAll(async () => {
  await browser?.close();
  await dock?.stop();
});

/** Each state of a page, by what must be there before axe looks. */
const states: { name: string; path: string; ready: (page: Page) => Promise<unknown> }[] = [
  { name: 'requests', path: 'requests', ready: (p) => p.locator('tbody tr').nth(2).waitFor() },
  {
    name: 'no match',
    path: 'requests?q=zzz',
    ready: (p) => p.locator('main button').last().waitFor(),
  },
  {
    name: 'a waiting request',
    path: 'requests/team-a/waits',
    ready: (p) => p.getByRole('meter').first().waitFor(),
  },
  {
    name: 'a running request',
    path: 'requests/team-a/runs',
    ready: (p) => p.getByRole('dialog').locator('table').waitFor(),
  },
  { name: 'the form', path: 'requests/new', ready: (p) => p.locator('#submit-form').waitFor() },
  {
    name: 'evidence, pending',
    path: 'evidence/team-a/runs',
    ready: (p) => p.getByTestId('verdict').waitFor(),
  },
  {
    name: 'evidence, broken',
    path: 'evidence/team-a/waits',
    ready: (p) => p.locator('[data-broken]').waitFor(),
  },
  {
    name: 'evidence of which',
    path: 'evidence',
    ready: (p) => p.locator('main li').first().waitFor(),
  },
  {
    name: 'home',
    path: 'home',
    ready: (p) => p.locator('main section li').first().waitFor(),
  },
  { name: 'models', path: 'models', ready: (p) => p.locator('tbody tr').first().waitFor() },
  {
    name: 'a model',
    path: 'models/team-a/runs',
    ready: (p) => p.getByRole('dialog').locator('table').waitFor(),
  },
  { name: 'fleet', path: 'fleet', ready: (p) => p.locator('main section').first().waitFor() },
  {
    name: 'fleet, picture',
    path: 'fleet?view=picture',
    ready: (p) => p.locator('[data-card]').first().focus(),
  },
  {
    name: 'fleet, a question answered',
    path: 'fleet?view=picture&fit=1024',
    ready: (p) => p.getByTestId('fit').locator('p').waitFor(),
  },
  { name: 'playground', path: 'playground', ready: (p) => p.locator('main textarea').waitFor() },
  { name: 'simulate', path: 'simulate', ready: (p) => p.locator('main form').waitFor() },
  { name: 'budget', path: 'budget', ready: (p) => p.locator('main table').nth(2).waitFor() },
  { name: 'limits', path: 'budget/limits', ready: (p) => p.locator('main table').waitFor() },
  { name: 'keys', path: 'budget/keys', ready: (p) => p.locator('main table').waitFor() },
  { name: 'grants', path: 'budget/grants', ready: (p) => p.locator('main table').waitFor() },
  {
    name: 'ledger',
    path: 'budget/ledger',
    ready: (p) => p.getByTestId('ledger-verdict').waitFor(),
  },
  { name: 'no such page', path: 'nowhere', ready: (p) => p.locator('main a').waitFor() },
];

describe.each([
  { theme: 'light', locale: 'en' },
  { theme: 'dark', locale: 'zh-CN' },
] as const)('$theme, $locale', ({ theme, locale }) => {
  test('every page is free of what axe finds', async () => {
    const { page, close } = await watch(browser, dock.url, { theme, locale });
    await page.goto(`${dock.url}/console/`);
    await page.locator('input[name=key]').waitFor();
    const found: Record<string, string[]> = { 'sign in': await axe(page) };
    await signIn(page, dock.url, dock.keys.admin);
    for (const { name, path, ready } of states) {
      await page.goto(`${dock.url}/console/${path}`);
      await ready(page);
      // Colours are judged when nothing fades any more.
      await page.evaluate(() =>
        Promise.all(document.getAnimations().map((a) => a.finished.catch(() => null))),
      );
      found[name] = await axe(page);
    }
    await page.keyboard.press('?');
    await page.getByRole('dialog').waitFor();
    await page.evaluate(() =>
      Promise.all(document.getAnimations().map((a) => a.finished.catch(() => null))),
    );
    found.shortcuts = await axe(page);
    expect(Object.fromEntries(Object.entries(found).filter(([, v]) => v.length > 0))).toEqual({});
    expect(await page.locator('html').getAttribute('lang')).toBe(locale);
    await close();
  });
});

test('on a narrow screen the evidence is one column of whole cards, and nothing covers another', async () => {
  const { page, close } = await watch(browser, dock.url, { theme: 'dark', locale: 'zh-CN' });
  await signIn(page, dock.url, dock.keys.admin);
  await page.setViewportSize({ width: 390, height: 800 });
  await page.goto(`${dock.url}/console/evidence/team-a/waits`);
  await page.getByTestId('verdict').waitFor();
  const boxes = await page
    .locator('main article')
    .evaluateAll((all) => all.map((e) => e.getBoundingClientRect().width));
  expect(Math.min(...boxes)).toBeGreaterThan(200);
  // The last step can be reached: the page scrolls.
  await page.locator('main article').last().scrollIntoViewIfNeeded();
  const { y = 0 } = (await page.locator('main article').last().boundingBox()) ?? {};
  expect(y).toBeLessThan(800);

  await page.goto(`${dock.url}/console/playground`);
  await page.locator('main textarea').waitFor();
  const title = await page.locator('main h1').boundingBox();
  const picker = await page.getByRole('combobox').boundingBox();
  expect(picker?.y).toBeGreaterThanOrEqual((title?.y ?? 0) + (title?.height ?? 0));

  await page.goto(`${dock.url}/console/requests/team-a/runs`);
  const buttons = page.getByRole('dialog').locator('footer button');
  await buttons.nth(2).waitFor();
  for (const button of await buttons.all()) {
    const box = await button.boundingBox();
    expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThanOrEqual(390);
  }
  await close();
});

test('at 1280, at 800 and at 390 pixels nothing is cut off sideways', async () => {
  const { page, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, dock.keys.admin);
  for (const width of [1280, 800, 390]) {
    await page.setViewportSize({ width, height: 800 });
    for (const { path, ready } of states) {
      await page.goto(`${dock.url}/console/${path}`);
      await ready(page);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      expect(over, `${path} at ${width}`).toBeLessThanOrEqual(0);
    }
  }
  await close();
});
