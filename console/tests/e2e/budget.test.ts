import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launch, signIn, watch } from './browser';
import { startModelDock, until, type ModelDock } from './modeldock';

let dock: ModelDock;
let browser: Browser;
beforeAll(async () => {
  [dock, browser] = await Promise.all([startModelDock(), launch()]);
});
afterAll(async () => {
  await browser?.close();
  await dock?.stop();
});

test('an admin raises a quota, and the request that waited for it is reserved', async () => {
  const key = dock.keys['team-a'];
  await dock.call(key, 'POST', '/requests', { id: 'large', cost: 3, priority: 50 });
  const { page, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, dock.keys.admin, 'home');
  const blocked = page.getByRole('region', { name: 'Requests blocked by budget' });
  await blocked.getByRole('link', { name: 'team-a/large' }).waitFor();

  await page.keyboard.press('g');
  await page.keyboard.press('t');
  await page.getByRole('button', { name: 'Change the cap of team-a' }).click();
  const cap = page.getByRole('dialog').getByLabel('Cap');
  await cap.fill('-1');
  await page.keyboard.press('Enter');
  await page.getByText('A whole number of slots, 0 or more.').waitFor();
  await cap.fill('3');
  await page.getByText('From 2 to 3').waitFor();
  await page.keyboard.press('Enter');
  await page.getByText('The cap of team-a is 3').waitFor();

  const journal = page.getByRole('table', { name: 'Journal' });
  await journal.getByText('+3').waitFor();
  const row = page.getByRole('table', { name: 'Quotas by tenant' }).getByRole('row', {
    name: /team-a/,
  });
  await row.getByRole('meter', { name: '3 of 3 slots used' }).waitFor();
  await close();
});

test('an admin limits callers: the change is told before it is done, by keys alone', async () => {
  const { page, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, dock.keys.admin, 'budget/limits');
  const change = page.getByRole('button', { name: 'Change the limits of team-b' });
  await change.focus();
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog');
  const effect = dialog.getByTestId('effect');
  await effect.getByText('Nothing would change.').waitFor();

  // The first field has the focus; a figure that is none is refused at its field.
  await page.keyboard.type('0');
  await page.keyboard.press('Enter');
  await dialog.getByText('A whole number, 1 or more; empty for no limit.').waitFor();
  const rate = dialog.getByLabel('Requests per minute').first();
  expect(await rate.evaluate((e) => e === document.activeElement)).toBe(true);
  await page.keyboard.press('Control+a');
  await page.keyboard.type('60');
  await effect.getByText('Requests per minute: no limit → 60').waitFor();
  await dialog
    .getByRole('group', { name: 'Each key by itself' })
    .getByLabel('Calls at once')
    .focus();
  await page.keyboard.type('2');
  await effect.getByText('Each key: Calls at once: no limit → 2').waitFor();
  await page.keyboard.press('Enter');
  await page.getByText('The limits of team-b are changed').waitFor();
  expect(await change.evaluate((e) => e === document.activeElement)).toBe(true);

  const row = page.getByRole('row', { name: /team-b/ });
  await row.getByText('60', { exact: true }).waitFor();
  await row.getByText('each key 2').waitFor();
  const told = await dock.call(dock.keys['team-b'], 'GET', '/tenants/team-b');
  const { limits } = (await told.json()) as { limits: object };
  expect(limits).toEqual({ requestsPerMinute: 60, perKey: { concurrency: 2 } });

  // A field that is emptied is a limit less; the others stay.
  await page.keyboard.press('Enter');
  await dialog.getByLabel('Requests per minute').first().fill('');
  await effect.getByText('Requests per minute: 60 → no limit').waitFor();
  await page.keyboard.press('Enter');
  await until('one limit less', async () => {
    const answer = await dock.call(dock.keys.admin, 'GET', '/tenants/team-b');
    const now = (await answer.json()) as { limits: object };
    return JSON.stringify(now.limits) === '{"perKey":{"concurrency":2}}' ? true : undefined;
  });
  await close();
});

test('the use of quotas and pools is shown over time, and read by keys', async () => {
  const key = dock.keys['team-a'];
  const { page, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, key, 'budget');
  await page.getByRole('button', { name: '1 hour' }).click();
  const tenants = page.getByRole('table', { name: 'Quotas by tenant' });
  await tenants.getByRole('img', { name: '0 to 3 slots were used' }).waitFor();
  await page.getByRole('button', { name: 'Show the use of team-a over time' }).click();
  const dialog = page.getByRole('dialog', { name: 'Use of team-a' });
  const moment = dialog.getByRole('slider', { name: 'Moment' });
  await moment.focus();
  const said = () => moment.getAttribute('aria-valuetext');
  expect(await said()).toMatch(/Used 3, Cap 3$/);
  await page.keyboard.press('Home');
  expect(await said()).toMatch(/Used 0, Cap 3$/);
  // The pointer moves the same cursor.
  const box = await dialog.locator('svg').last().boundingBox();
  if (!box) throw new Error('the chart has no size');
  await page.mouse.move(box.x + box.width - 1, box.y + box.height / 2);
  await until('the cursor at the end', async () =>
    (await said())?.includes('Used 3') ? true : undefined,
  );
  await close();
});

test('a key is shown once, signs in, and ends when it is revoked', async () => {
  const { page, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, dock.keys.admin, 'budget/keys');
  await page.getByRole('button', { name: 'New key' }).click();
  await page.getByRole('button', { name: 'Make the key' }).click();
  await page.getByText('Needed.').waitFor();
  await page.getByRole('combobox', { name: 'Tenant' }).click();
  await page.getByRole('option', { name: 'team-b' }).click();
  await page.getByRole('button', { name: 'Make the key' }).click();
  const key = await page.getByTestId('secret').locator('span.font-mono').innerText();
  const id = await page.getByRole('dialog').locator('code').innerText();
  expect((await dock.call(key, 'GET', '/tenants')).status).toBe(200);
  await page.getByRole('button', { name: 'I have copied it' }).click();
  const row = page.getByRole('row').filter({ hasText: id });
  await row.getByText('live').waitFor();
  const kept = await page.evaluate(() =>
    JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.body.innerHTML]),
  );
  expect(kept).not.toContain(key);

  await row.getByRole('button', { name: 'Revoke' }).click();
  await page.getByText('Calls and sessions of team-b').waitFor();
  await page.getByRole('button', { name: 'Revoke key' }).click();
  await row.getByText('revoked').waitFor();
  await until('the end of the key', async () =>
    (await dock.call(key, 'GET', '/tenants')).status === 401 ? true : undefined,
  );
  await close();
});

test('an owner grants a model and takes the grant back', async () => {
  const { page, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, dock.keys['team-a'], 'budget/grants');
  await page.getByText('No model is shared').waitFor();
  await page.getByRole('button', { name: 'New grant' }).click();
  await page.getByLabel('Model').fill('tiny');
  await page.getByLabel('May be called by').fill('team-b');
  await page.keyboard.press('Enter');
  const row = page.getByRole('row').filter({ hasText: 'tiny' });
  await row.getByText('team-b').waitFor();
  await row.getByRole('button', { name: 'Remove' }).click();
  await page.getByText('No model is shared').waitFor();
  await close();
});

test('the ledger is verified for an admin, and nobody else is offered it', async () => {
  const admin = await watch(browser, dock.url);
  await signIn(admin.page, dock.url, dock.keys.admin, 'budget/ledger');
  await admin.page.getByTestId('ledger-verdict').getByText('The ledger adds up').waitFor();
  await admin.close();

  const { page, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, dock.keys['team-a'], 'budget/ledger');
  await page.getByText('Only an admin may see this').waitFor();
  expect(await page.getByRole('link', { name: 'Ledger' }).count()).toBe(0);
  await page.goto(`${dock.url}/console/budget/keys`);
  await page.getByText('Only an admin may see this').waitFor();
  await page.goto(`${dock.url}/console/budget`);
  const table = page.getByRole('table', { name: 'Quotas by tenant' });
  await table.getByText('team-a').waitFor();
  expect(await page.getByText('team-b').count()).toBe(0);
  expect(await page.getByRole('button', { name: 'New tenant' }).count()).toBe(0);
  await close();
});
