import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launch, signIn, watch } from './browser';
import { startModelDock, until, untilReady, type ModelDock } from './modeldock';

let dock: ModelDock;
let browser: Browser;
beforeAll(async () => {
  [dock, browser] = await Promise.all([startModelDock(), launch()]);
});
afterAll(async () => {
  await browser?.close();
  await dock?.stop();
});

test('the story of a request: submit, submit again, change, block, release', async () => {
  const key = dock.keys['team-a'];
  const { page, close } = await watch(browser, dock.url, { expectStatus: [409] });
  await signIn(page, dock.url, key);
  await page.getByText('No requests yet').waitFor();
  const row = (id: string) =>
    page.getByRole('row').filter({ has: page.getByRole('link', { name: id, exact: true }) });

  // Submit: it is reserved and becomes ready before the eyes, without a reload.
  await page.keyboard.press('n');
  await page.getByLabel('Request id').fill('demo-a');
  await page.getByLabel('Cost').fill('2');
  await page.getByRole('button', { name: 'Submit request' }).click();
  const drawer = page.getByRole('dialog');
  await drawer.getByText('Reserved', { exact: true }).first().waitFor();
  await drawer.getByText('1 of 1 ready').waitFor();
  await drawer.getByText('Debit', { exact: true }).waitFor();
  await page.keyboard.press('Escape');
  await row('demo-a').getByText('Reserved', { exact: true }).waitFor();

  // The same again is counted once.
  await page.keyboard.press('n');
  await page.getByLabel('Request id').fill('demo-a');
  await page.getByLabel('Cost').fill('2');
  await page.getByRole('button', { name: 'Submit request' }).click();
  await page.getByText('2 submits, counted once').waitFor();
  await page.keyboard.press('Escape');

  // Another cost under the same id is refused, at its field.
  await page.keyboard.press('n');
  await page.getByLabel('Request id').fill('demo-a');
  await page.getByLabel('Cost').fill('1');
  await page.getByRole('button', { name: 'Submit request' }).click();
  await page.getByText('This id exists with other values').waitFor();
  const cost = page.getByLabel('Cost');
  expect(await cost.getAttribute('aria-invalid')).toBe('true');
  expect(await cost.evaluate((e) => e === document.activeElement)).toBe(true);

  // The quota is spent: the next one waits, and says why with figures.
  await page.getByLabel('Request id').fill('demo-b');
  await page.getByRole('button', { name: 'Submit request' }).click();
  await drawer.getByText('QuotaBlocked').waitFor();
  await drawer.getByText('holds 2 of 2 slots').waitFor();
  await drawer.getByText('Quota of team-a').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: /^Waiting 1$/ }).click();
  await row('demo-b').getByText('QuotaBlocked').waitFor();
  expect(await row('demo-a').count()).toBe(0);
  expect(page.url()).toContain('state=waiting');

  // Released after a question; the slots come back and the other one gets them.
  await page.getByRole('button', { name: /^All 2$/ }).click();
  await row('demo-a').getByRole('link').click();
  await drawer.getByRole('button', { name: 'Release', exact: true }).click();
  await page.getByText('team-a gets back 2 slots').waitFor();
  await page.getByRole('button', { name: 'Release request' }).click();
  await drawer.getByText('Released', { exact: true }).first().waitFor();
  await drawer.getByText('Credit', { exact: true }).waitFor();
  await page.keyboard.press('Escape');
  await row('demo-b').getByText('Reserved', { exact: true }).waitFor();
  await close();
});

test('what another client does appears by itself, and does not move what is being read', async () => {
  const key = dock.keys['team-b'];
  const { page, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, key);
  await page.getByText('No requests yet').waitFor();
  const submit = (id: string) => dock.call(key, 'POST', '/requests', { id, cost: 1, priority: 50 });
  expect((await submit('other-1')).status).toBe(202);
  await page.getByRole('link', { name: 'other-1' }).click();
  expect((await submit('other-2')).status).toBe(202);
  await page.locator('button', { hasText: '1 new' }).waitFor({ state: 'attached' });
  expect(await page.locator('main table tbody tr').count()).toBe(1);
  await page.keyboard.press('Escape');
  await page.getByRole('link', { name: 'other-2' }).waitFor();
  await close();
});

test('an admin names the tenant, sees all, and opens a request of any', async () => {
  await untilReady(dock, dock.keys['team-b'], 'other-1');
  const { page, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, dock.keys.admin);
  await page.getByRole('link', { name: 'other-1' }).click();
  await page.getByRole('dialog').getByText('team-b · other-1').waitFor();
  await page.getByRole('dialog').getByText('1 of 1 ready').waitFor();
  await page.getByRole('button', { name: 'Show the last lines' }).click();
  await page.getByRole('dialog').locator('pre').waitFor();
  await page.keyboard.press('Escape');

  await page.getByRole('button', { name: 'New request' }).click();
  await page.getByLabel('Request id').fill('by-admin');
  await page.getByRole('button', { name: 'Submit request' }).click();
  await page.getByText('Needed.').waitFor();
  await page.getByRole('combobox', { name: 'Tenant' }).click();
  await page.getByRole('option', { name: /team-b/ }).click();
  await page.getByRole('button', { name: 'Submit request' }).click();
  await page.getByRole('dialog').getByText('team-b · by-admin').waitFor();
  const record = await until('the record of the admin', async () => {
    const answer = await dock.call(dock.keys['team-b'], 'GET', '/requests/by-admin');
    return answer.ok ? ((await answer.json()) as { tenant: string }) : undefined;
  });
  expect(record.tenant).toBe('team-b');
  await close();
});

test('a viewer reads everything and is offered nothing to change', async () => {
  const made = await dock.call(dock.keys.admin, 'POST', '/keys', { role: 'viewer' });
  const { key } = (await made.json()) as { key: string };
  const { page, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, key);
  await page.getByRole('link', { name: 'other-1' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Open evidence' }).waitFor();
  expect(await page.getByRole('button', { name: 'Release', exact: true }).count()).toBe(0);
  await page.keyboard.press('Escape');
  expect(await page.getByRole('button', { name: 'New request' }).count()).toBe(0);
  // It may call no model, and is not offered any.
  await page.goto(`${dock.url}/console/playground`);
  await page.getByText('A viewer calls no models').waitFor();
  expect(await page.getByRole('combobox', { name: 'Model' }).isDisabled()).toBe(true);
  await close();
});

test('keys move between rows, open, step to the neighbour and come back to the row', async () => {
  const { page, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, dock.keys['team-b']);
  await page.getByRole('link', { name: 'other-1' }).waitFor();
  const focused = () => page.evaluate(() => document.activeElement?.textContent?.trim());
  await page.keyboard.press('j');
  await until('focus on the first row', async () =>
    (await focused()) === 'by-admin' ? true : undefined,
  );
  await page.keyboard.press('j');
  await until('focus on the second row', async () =>
    (await focused()) === 'other-2' ? true : undefined,
  );
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: 'other-2' }).waitFor();
  await page.keyboard.press(']');
  await page.getByRole('dialog', { name: 'other-1' }).waitFor();
  await page.keyboard.press('[');
  await page.getByRole('dialog', { name: 'other-2' }).waitFor();
  await page.keyboard.press('Escape');
  await until('focus back on the row', async () =>
    (await focused()) === 'other-2' ? true : undefined,
  );
  await page.keyboard.press('/');
  await page.keyboard.type('by-');
  await page.getByText('1 request', { exact: true }).waitFor();
  expect(page.url()).toContain('q=by-');
  await close();
});
