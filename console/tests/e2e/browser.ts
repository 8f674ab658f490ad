import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';
import { expect } from 'vitest';

const CHROMIUM = process.env.CHROMIUM_BIN ?? '/usr/bin/chromium';
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export const launch = (): Promise<Browser> =>
  chromium.launch({ executablePath: CHROMIUM, args: FLAGS });

export interface Watched {
  page: Page;
  context: BrowserContext;
  /** Closes the page, and fails if anything went wrong on it that the test did not expect. */
  close(): Promise<void>;
}

interface Options {
  theme?: 'light' | 'dark';
  locale?: 'en' | 'zh-CN';
  /** Statuses of answers that the test provokes; the browser logs each as an error. */
  expectStatus?: number[];
  /** Other errors that the browser logs because the test provokes them. */
  expectError?: string[];
}

/**
 * A page in its own context that is watched: no violation of the content
 * security policy, no uncaught error, no error or warning on the console, and
 * no request to another host.
 */
export async function watch(
  browser: Browser,
  url: string,
  options: Options = {},
): Promise<Watched> {
  const { theme = 'light', locale = 'en', expectStatus = [], expectError = [] } = options;
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, locale });
  await context.addInitScript(
    ([t, l]) => {
      localStorage.setItem('modeldock.theme', t);
      localStorage.setItem('modeldock.locale', l);
      const found: string[] = [];
      Object.assign(window, { violations: found });
      document.addEventListener('securitypolicyviolation', (e) =>
        found.push(`${e.effectiveDirective} blocked ${e.blockedURI || 'inline'} (${e.sample})`),
      );
    },
    [theme, locale] as const,
  );
  const page = await context.newPage();
  const faults: string[] = [];
  // 401: asking who is signed in.
  const expected = [...[401, ...expectStatus].map((s) => `status of ${s}`), ...expectError];
  page.on('pageerror', (error) => faults.push(`uncaught: ${error.message}`));
  page.on('console', (message) => {
    const text = message.text();
    if (message.type() !== 'error' && message.type() !== 'warning') return;
    if (!expected.some((e) => text.includes(e))) faults.push(`console: ${text}`);
  });
  page.on('request', (request) => {
    const to = new URL(request.url());
    if (to.protocol !== 'data:' && to.origin !== url) faults.push(`request to ${to.origin}`);
  });
  return {
    page,
    context,
    close: async () => {
      const violations = await page.evaluate(
        () => (window as unknown as { violations: string[] }).violations,
      );
      await context.close();
      expect([...violations, ...faults]).toEqual([]);
    },
  };
}

/** Signs in on the page itself and waits for the view that was asked for. */
export async function signIn(
  page: Page,
  url: string,
  key: string,
  view = 'requests',
): Promise<void> {
  await page.goto(`${url}/console/${view}`);
  await page.locator('input[name=key]').fill(key);
  await page.keyboard.press('Enter');
  await page.locator('h1').waitFor();
  await page.locator('nav').first().waitFor();
}

const axeSource = readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface AxeResult {
  violations: { id: string; impact: string; nodes: { html: string; failureSummary: string }[] }[];
}

/** What axe finds by the rules of WCAG 2.2 A and AA, one line for each element. */
export async function axe(page: Page): Promise<string[]> {
  await page.evaluate(await axeSource);
  const result = await page.evaluate<AxeResult>(`axe.run(document, {
    runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'],
  })`);
  return result.violations.flatMap((v) =>
    v.nodes.map((n) => `${v.id} (${v.impact}): ${n.html.slice(0, 200)} — ${n.failureSummary}`),
  );
}
