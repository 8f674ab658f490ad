import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launch, signIn, watch } from '../e2e/browser';
import { until } from '../e2e/modeldock';

// Two models run, the third is blocked, one is released, the third runs: on a
// ModelDock that is there already, whose tenants have a quota of two and
// nothing else to do. One tenant works by mouse, the other by keys alone.

const url = process.env.MODELDOCK_URL ?? '';
const keys = JSON.parse(process.env.MODELDOCK_KEYS ?? '{}') as Record<string, string>;
/** Whether its nodes have no cards that it knows of. */
const noCards = process.env.MODELDOCK_CARDS === 'none';
/** Starting Pods takes a busy machine long. */
const PATIENCE_MS = 90_000;

let browser: Browser;
beforeAll(async () => {
  if (!url || !keys['team-a'] || !keys['team-b'])
    throw new Error('MODELDOCK_URL and MODELDOCK_KEYS (team-a, team-b) name no running ModelDock');
  browser = await launch();
});
afterAll(() => browser?.close());

/** Whose work it is, and how it is done. */
interface Hands {
  tenant: string;
  submit(page: Page, id: string): Promise<void>;
  release(page: Page, id: string): Promise<void>;
  /** Opens a view of the rail. */
  go(page: Page, name: string): Promise<void>;
  /** Opens a request's evidence from the list. */
  explain(page: Page, id: string): Promise<void>;
  /** Closes what is open over the page. */
  close(page: Page): Promise<void>;
  ask(page: Page, size: string): Promise<void>;
}

const row = (page: Page, id: string) =>
  page.getByRole('row').filter({ has: page.getByRole('link', { name: id, exact: true }) });
const drawer = (page: Page, id: string) => page.getByRole('dialog', { name: id, exact: true });

const mouse: Hands = {
  tenant: 'team-a',
  async submit(page, id) {
    await page.getByRole('button', { name: 'New request' }).first().click();
    await page.getByLabel('Request id').fill(id);
    await page.getByLabel('GPU memory').fill('64');
    await page.getByRole('button', { name: 'Submit request' }).click();
    await drawer(page, id).waitFor();
  },
  async release(page, id) {
    await row(page, id).getByRole('link').click();
    await drawer(page, id).getByRole('button', { name: 'Release', exact: true }).click();
    await page.getByRole('button', { name: 'Release request' }).click();
    await drawer(page, id).getByText('Released', { exact: true }).first().waitFor();
  },
  go: (page, name) => page.getByRole('navigation').first().getByRole('link', { name }).click(),
  async explain(page, id) {
    await row(page, id).getByRole('link').click();
    await drawer(page, id).getByRole('button', { name: 'Open evidence' }).click();
  },
  close: (page) => page.getByRole('dialog').getByRole('button', { name: 'Close' }).first().click(),
  async ask(page, size) {
    await page.getByRole('textbox', { name: 'Memory on each card' }).fill(size);
    await page.getByRole('button', { name: 'Ask', exact: true }).click();
  },
};

/** Presses Tab until the element with this name has the focus. */
async function tabTo(page: Page, name: string): Promise<void> {
  const at = () =>
    page.evaluate(() => {
      const e = document.activeElement as HTMLElement | null;
      return e?.getAttribute('aria-label') ?? e?.innerText?.trim() ?? '';
    });
  for (let presses = 0; presses < 40; presses++) {
    if ((await at()) === name) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`Tab did not reach ${name}`);
}

/** Moves along the rows until the one with this id has the focus. */
async function rowTo(page: Page, id: string): Promise<void> {
  for (let presses = 0; presses < 10; presses++) {
    await page.keyboard.press('j');
    const at = await page.evaluate(() => document.activeElement?.textContent?.trim());
    if (at === id) return;
  }
  throw new Error(`j did not reach ${id}`);
}

const letters: Record<string, string> = { Requests: 'r', Models: 'm', Fleet: 'f' };
const keyboard: Hands = {
  tenant: 'team-b',
  async submit(page, id) {
    await page.keyboard.press('n');
    await page.getByRole('dialog', { name: 'New request' }).waitFor();
    await page.keyboard.type(id); // the first field has the focus
    await page.keyboard.press('Enter');
    await drawer(page, id).waitFor();
  },
  async release(page, id) {
    await rowTo(page, id);
    await page.keyboard.press('Enter');
    await drawer(page, id).waitFor();
    await tabTo(page, 'Release');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Release request' }).waitFor();
    await tabTo(page, 'Release request');
    await page.keyboard.press('Enter');
    await drawer(page, id).getByText('Released', { exact: true }).first().waitFor();
  },
  async go(page, name) {
    await page.keyboard.press('g');
    await page.keyboard.press(letters[name] ?? '');
  },
  async explain(page, id) {
    await rowTo(page, id);
    await page.keyboard.press('Enter');
    await drawer(page, id).waitFor();
    await tabTo(page, 'Open evidence');
    await page.keyboard.press('Enter');
  },
  close: (page) => page.keyboard.press('Escape'),
  async ask(page, size) {
    // The key means this field once it is there.
    await page.getByRole('textbox', { name: 'Memory on each card' }).waitFor();
    await page.keyboard.press('/');
    await page.keyboard.press('Control+a');
    await page.keyboard.type(size);
    await page.keyboard.press('Enter');
    await tabTo(page, 'Ask'); // in a field, single keys are letters
  },
};

const closed = (page: Page) =>
  until('the drawer to close', async () =>
    (await page.getByRole('dialog').count()) === 0 ? true : undefined,
  );

async function tell(page: Page, hands: Hands): Promise<void> {
  const id = (n: number) => `${hands.tenant}-${n}`;
  const wait = { timeout: PATIENCE_MS };

  // Requests: two run in real Pods, and say so without a reload.
  for (const n of [1, 2]) {
    await hands.submit(page, id(n));
    await drawer(page, id(n)).getByText('1 of 1 ready').waitFor(wait);
    await hands.close(page);
    await closed(page);
    await row(page, id(n)).getByText('Reserved', { exact: true }).waitFor();
  }
  // The third is blocked, with the figures.
  await hands.submit(page, id(3));
  await drawer(page, id(3)).getByText('QuotaBlocked').waitFor();
  await drawer(page, id(3)).getByText('holds 2 of 2 slots').waitFor();
  await hands.close(page);
  await closed(page);

  // Evidence: of one that runs, link by link; of the blocked one, where it breaks.
  await hands.explain(page, id(1));
  const verdict = page.getByTestId('verdict');
  await verdict.getByText('Nothing is broken').waitFor();
  await page.getByText('Known to the gateway').waitFor();
  expect(await page.locator('[data-broken]').count()).toBe(0);
  await hands.go(page, 'Requests');
  await row(page, id(3)).waitFor();
  await hands.explain(page, id(3));
  await verdict.getByText('Broken at “Slots reserved”').waitFor();
  await page.locator('[data-broken]').getByText('QuotaBlocked').waitFor();

  // Models: what runs, and where.
  await hands.go(page, 'Models');
  for (const n of [1, 2]) await row(page, id(n)).getByText('1/1').waitFor();
  expect(await row(page, id(3)).count()).toBe(0);

  // Fleet: the nodes, and whether one more would fit; or that there is no card.
  await hands.go(page, 'Fleet');
  await page.getByRole('heading', { name: 'Fleet' }).waitFor();
  const fit = page.getByTestId('fit');
  await hands.ask(page, '20 GiB');
  if (noCards) await fit.getByText(/^No: there is no card/).waitFor();
  else {
    await fit.getByText(/^Yes: on \S+, card \d/).waitFor();
    await hands.ask(page, '30 GiB');
    await fit.getByText(/^No: the largest hole is/).waitFor();
  }

  // One is released: when its Pod is gone the third gets the slots, and runs.
  await hands.go(page, 'Requests');
  await row(page, id(2)).waitFor();
  await hands.release(page, id(2));
  await hands.close(page);
  await closed(page);
  await row(page, id(3)).getByText('Reserved', { exact: true }).waitFor(wait);
  await hands.go(page, 'Models');
  await row(page, id(3)).getByText('1/1').waitFor(wait);
  expect(await row(page, id(2)).count()).toBe(0);
}

test.each([
  { how: 'by mouse', hands: mouse },
  { how: 'by keys alone', hands: keyboard },
])('two run, the third is blocked, one is released, the third runs: $how', async ({ hands }) => {
  const { page, close } = await watch(browser, url);
  page.setDefaultTimeout(PATIENCE_MS);
  await signIn(page, url, keys[hands.tenant] ?? '');
  await page.getByText('No requests yet').waitFor();
  await tell(page, hands);
  await close();
});
