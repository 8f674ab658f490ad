import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launch, signIn, watch } from './browser';
import { startModelDock, type ModelDock } from './modeldock';

let dock: ModelDock;
let browser: Browser;
beforeAll(async () => {
  [dock, browser] = await Promise.all([startModelDock(), launch()]);
});
afterAll(async () => {
  await browser?.close();
  await dock?.stop();
});

const MOST = 150 * 1024;
const views = [
  'home',
  'requests',
  'evidence',
  'models',
  'fleet',
  'playground',
  'budget',
  'budget/limits',
  'budget/keys',
  'simulate',
];

test('no view needs more than 150 KiB of compressed script for its first load', async () => {
  const sizes: Record<string, number> = {};
  const { page, context, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, dock.keys.admin);
  for (const view of views) {
    // Without the cache, as a stranger comes.
    const fresh = await context.newPage();
    const protocol = await context.newCDPSession(fresh);
    await protocol.send('Network.setCacheDisabled', { cacheDisabled: true });
    await fresh.goto(`${dock.url}/console/${view}`, { waitUntil: 'load' });
    await fresh.locator('main h1').waitFor();
    sizes[view] = await fresh.evaluate(() =>
      (performance.getEntriesByType('resource') as PerformanceResourceTiming[])
        .filter((e) => new URL(e.name).pathname.endsWith('.js'))
        .reduce((sum, e) => sum + e.encodedBodySize, 0),
    );
    await fresh.close();
  }
  console.log(
    'script of a first load, KiB:',
    Object.entries(sizes)
      .map(([v, n]) => `${v} ${Math.round(n / 1024)}`)
      .join(', '),
  );
  for (const [view, size] of Object.entries(sizes)) {
    expect(size, view).toBeGreaterThan(50 * 1024); // else nothing was measured
    expect(size, view).toBeLessThanOrEqual(MOST);
  }
  await close();
});
