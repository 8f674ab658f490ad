import type { Browser, Locator, Page, Route } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { launch, signIn, watch, type Watched } from './browser';
import { startModelDock, until, untilReady, type ModelDock } from './modeldock';

// Every view in each state that an answer of the server can put it into. The
// server is real; only the answers that a view is made of are replaced.

type Mode = 'pass' | 'empty' | 'missing' | 'hang' | 'error' | 'forbidden';

interface View {
  name: string;
  path: () => string;
  /** Paths of the answers that the view shows. */
  api: RegExp;
  /** What is there once they are read. */
  shown: (page: Page) => Locator;
  /** What it says of an empty answer; a document has none, it is there or missing. */
  empty?: string;
}

let dock: ModelDock;
let browser: Browser;
let watched: Watched;
let call = '';
let mode: Mode = 'pass';
/** Whether the event stream ends at once and comes back, so that everything is read again. */
let restless = false;

const row = (page: Page) => page.locator('main tbody tr').first();
const views: View[] = [
  {
    name: 'home',
    path: () => 'home',
    api: /^\/(requests|models|nodes|diagnostics)$/,
    shown: (p) => p.locator('main section li').first(),
    empty: 'Nothing needs attention now.',
  },
  {
    name: 'requests',
    path: () => 'requests',
    api: /^\/requests$/,
    shown: row,
    empty: 'No requests yet',
  },
  {
    name: 'a request',
    path: () => 'requests/team-a/waits',
    api: /^\/requests(\/waits)?$/,
    shown: (p) => p.getByRole('dialog').getByRole('meter').first(),
  },
  {
    name: 'evidence of which',
    path: () => 'evidence',
    api: /^\/requests$/,
    shown: (p) => p.locator('main li').first(),
    empty: 'There is no request to explain yet',
  },
  {
    name: 'evidence',
    path: () => 'evidence/team-a/waits',
    api: /\/evidence$/,
    shown: (p) => p.getByTestId('verdict'),
  },
  {
    name: 'trace',
    path: () => `traces/${call}`,
    api: /^\/traces\//,
    shown: (p) => p.locator('main h2').first(),
  },
  {
    name: 'models',
    path: () => 'models',
    api: /^\/models$/,
    shown: row,
    empty: 'No model is served yet',
  },
  {
    name: 'fleet',
    path: () => 'fleet',
    api: /^\/nodes$/,
    shown: (p) => p.locator('main section').last(),
    empty: 'No node has reported yet',
  },
  {
    name: 'playground',
    path: () => 'playground',
    api: /^\/models$/,
    shown: (p) => p.getByText('Nothing was asked yet'),
    empty: 'No model is served yet',
  },
  {
    name: 'quotas',
    path: () => 'budget',
    api: /^\/(tenants|pools)$/,
    // The journal below them is not what is held back.
    shown: (p) => p.locator('main section').first().locator('tbody tr').first(),
    empty: 'No tenant yet',
  },
  {
    name: 'limits',
    path: () => 'budget/limits',
    api: /^\/tenants$/,
    shown: row,
    empty: 'No tenant yet',
  },
  { name: 'keys', path: () => 'budget/keys', api: /^\/keys$/, shown: row, empty: 'No key yet' },
  {
    name: 'grants',
    path: () => 'budget/grants',
    api: /^\/grants$/,
    shown: row,
    empty: 'No model is shared',
  },
  {
    name: 'ledger',
    path: () => 'budget/ledger',
    api: /^\/ledger\/verify$/,
    shown: (p) => p.getByTestId('ledger-verdict'),
  },
];

beforeAll(async () => {
  [dock, browser] = await Promise.all([startModelDock(), launch()]);
  const key = dock.keys['team-a'];
  for (const body of [
    { id: 'runs', cost: 2, priority: 50 },
    { id: 'waits', cost: 1, priority: 50 },
  ])
    expect((await dock.call(key, 'POST', '/requests', body)).status).toBe(202);
  await dock.call(key, 'PUT', '/grants/team-a/runs/team-b');
  await untilReady(dock, key, 'runs');
  const messages = [{ role: 'user', content: 'hello' }];
  const answer = await dock.call(key, 'POST', '/v1/chat/completions', { model: 'runs', messages });
  await answer.text();
  call = answer.headers.get('x-request-id') ?? '';
  await until('the trace of the call', async () =>
    (await dock.call(key, 'GET', `/traces/${call}`)).ok ? true : undefined,
  );

  watched = await watch(browser, dock.url, {
    expectStatus: [403, 404, 500],
    expectError: ['ERR_FAILED'],
  });
  await signIn(watched.page, dock.url, dock.keys.admin);
  await watched.page.route(`${dock.url}/events`, (route) =>
    restless
      ? route.fulfill({
          contentType: 'text/event-stream',
          body: 'retry: 200\nevent: reset\ndata: {}\n\n',
        })
      : route.continue(),
  );
}, 120_000);
afterAll(async () => {
  await watched?.page.unrouteAll({ behavior: 'ignoreErrors' });
  await watched?.close();
  await browser?.close();
  await dock?.stop();
});

const error = (route: Route, status: number, code: string, message: string) =>
  route.fulfill({ status, json: { error: { code, message } } });

/** Answers in place of the server, as the mode says. */
async function instead(route: Route): Promise<void> {
  const { pathname } = new URL(route.request().url());
  if (mode === 'hang') return; // left open until the page is left
  if (mode === 'empty')
    return route.fulfill({
      json: pathname === '/diagnostics' ? { parts: [] } : { items: [], next: '' },
    });
  if (mode === 'missing') return error(route, 404, 'not_found', 'there is no such thing');
  if (mode === 'error') return error(route, 500, 'internal', 'the disk is full: 0 bytes left');
  if (mode === 'forbidden') return error(route, 403, 'forbidden', 'this key may not read that');
  return route.continue();
}

describe.each(views)('$name', ({ path, api, shown, empty }) => {
  const open = async (as: Mode): Promise<Page> => {
    const { page } = watched;
    mode = as;
    await page.goto(`${dock.url}/console/${path()}`);
    return page;
  };
  const only = (url: URL) => url.origin === dock.url && api.test(url.pathname);
  const alert = (page: Page, text: string) => page.getByRole('alert').filter({ hasText: text });

  beforeAll(() => watched.page.route(only, instead));
  afterAll(() => watched.page.unroute(only, instead));

  test('while it loads it says so, and claims nothing', async () => {
    const page = await open('hang');
    await page.getByRole('status').getByText('Loading').first().waitFor();
    expect(await shown(page).count()).toBe(0);
    if (empty) expect(await page.getByText(empty).count()).toBe(0);
  });

  if (empty)
    test('an empty answer is said in words', async () => {
      const page = await open('empty');
      await page.getByText(empty).first().waitFor();
      expect(await page.getByRole('alert').count()).toBe(0);
    });
  else
    test('a document that is not there is said in words', async () => {
      const page = await open('missing');
      await alert(page, 'Not found').first().waitFor();
    });

  test('a failure has the words of the server, its code and a way on', async () => {
    const page = await open('error');
    const first = alert(page, 'The server failed').first();
    await first.getByText('the disk is full: 0 bytes left').waitFor();
    await first.getByText('internal', { exact: true }).waitFor();
    if (empty) expect(await page.getByText(empty).count()).toBe(0);
    mode = 'pass';
    // Each part that failed is asked again by its own button.
    const again = page.getByRole('button', { name: 'Try again' });
    await until('an answer to each part', async () => {
      if ((await again.count()) === 0) return true;
      await again
        .first()
        .click({ timeout: 500 })
        .catch(() => undefined); // it was the last one, and is gone
      return undefined;
    });
    await shown(page).waitFor();
  });

  test('what the key may not read is said as that, and who can help', async () => {
    const page = await open('forbidden');
    const first = alert(page, 'Not permitted').first();
    await first.getByText('this key may not read that').waitFor();
    await first.getByText('Ask an admin').waitFor();
    if (empty) expect(await page.getByText(empty).count()).toBe(0);
  });

  test('what is old stays, and says its age', async () => {
    restless = true;
    const page = await open('pass');
    await shown(page).waitFor();
    mode = 'error';
    await alert(page, 'as of').first().waitFor();
    expect(await shown(page).isVisible()).toBe(true);
    mode = 'pass';
    await alert(page, 'as of').first().waitFor({ state: 'detached' });
    restless = false;
  });
});

test('what only an admin may see is not asked for by others, and says so', async () => {
  const { page, close } = await watch(browser, dock.url);
  const asked: string[] = [];
  page.on('request', (r) => asked.push(new URL(r.url()).pathname));
  await signIn(page, dock.url, dock.keys['team-a'], 'budget/keys');
  for (const path of ['budget/keys', 'budget/ledger']) {
    await page.goto(`${dock.url}/console/${path}`);
    await page.getByText('Only an admin may see this').waitFor();
    await page.getByText('Sign in with an admin key, or ask an admin.').waitFor();
  }
  expect(asked).not.toContain('/keys');
  expect(asked).not.toContain('/ledger/verify');
  await close();
});

test('while the server is away every view says since when, and for how long', async () => {
  const gone = await startModelDock();
  const { page, close } = await watch(browser, gone.url, { expectError: ['ERR_'] });
  await signIn(page, gone.url, gone.keys['team-a'], 'models');
  await page.getByText('No model is served yet').waitFor();
  expect(await page.getByTestId('stale').count()).toBe(0);
  await gone.stop();
  const stale = page.getByTestId('stale');
  await stale.getByText(/^No connection to ModelDock since \d{4}-\d\d-\d\d \d\d:/).waitFor();
  await stale.getByText(/^\d+s$/).waitFor();
  // What was read stays; a view whose files cannot be fetched does not lead to an error page.
  await page.getByRole('link', { name: 'Simulate' }).click();
  await page.getByText('ModelDock cannot be reached').waitFor();
  await page.getByText('No model is served yet').waitFor();
  await stale.waitFor();
  await close();
});
