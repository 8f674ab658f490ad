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

test('a wrong key is refused in words, and nothing is signed in', async () => {
  const { page, close } = await watch(browser, dock.url);
  await page.goto(`${dock.url}/console/`);
  await page.locator('input[name=key]').fill('mdk_wrong_wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').getByText('The key or session is not valid').waitFor();
  expect(await page.locator('input[name=key]').inputValue()).toBe('');
  expect(page.url()).toContain('/console/signin');
  await close();
});

test('a key signs in, is kept nowhere, and the session survives a reload until it is ended', async () => {
  const { page, context, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, dock.keys['team-a']);
  await page.getByText('team-a', { exact: true }).first().waitFor();

  const secret = dock.keys['team-a'].split('_').at(-1) ?? dock.keys['team-a'];
  const kept = await page.evaluate(() =>
    JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href]),
  );
  expect(kept).not.toContain(secret);
  const cookie = (await context.cookies()).find((c) => c.name === 'modeldock_session');
  expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict' });
  expect(cookie?.value).not.toContain(secret);

  await page.reload();
  await page.getByRole('heading', { name: 'Requests' }).waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await page.reload();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await close();
});

test('an address asked for without a session is shown after signing in', async () => {
  const { page, close } = await watch(browser, dock.url);
  await page.goto(`${dock.url}/console/budget`);
  await page.locator('input[name=key]').fill(dock.keys['team-b']);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Budget' }).waitFor();
  // A tenant reads itself and nobody else.
  await page.getByRole('table', { name: 'Quotas by tenant' }).getByText('team-b').waitFor();
  expect(await page.getByText('team-a').count()).toBe(0);
  await close();
});

test('a session that the server ends leads to signing in again, and says so', async () => {
  const made = await dock.call(dock.keys.admin, 'POST', '/keys', {
    role: 'tenant',
    tenant: 'team-b',
  });
  const { id, key } = (await made.json()) as { id: string; key: string };
  const { page, close } = await watch(browser, dock.url, { expectStatus: [403] });
  await signIn(page, dock.url, key);
  await page.getByRole('heading', { name: 'Requests' }).waitFor();
  expect((await dock.call(dock.keys.admin, 'DELETE', `/keys/${id}`)).status).toBe(204);
  await page.getByRole('link', { name: 'Fleet' }).click();
  await page.getByText('Your session has ended').waitFor();
  await close();
});

test('language and theme are switched in place and survive a reload', async () => {
  const { page, context, close } = await watch(browser, dock.url);
  await signIn(page, dock.url, dock.keys['team-a']);
  await page.getByRole('button', { name: '中文' }).click();
  await page.getByRole('heading', { name: '请求' }).waitFor();
  await page.getByRole('button', { name: '切换到深色主题' }).click();
  expect(await page.locator('html').getAttribute('data-theme')).toBe('dark');
  // In a context without this suite's presets: only what the clicks have stored.
  const other = await browser.newContext({ storageState: await context.storageState() });
  const again = await other.newPage();
  await again.goto(`${dock.url}/console/requests`);
  await again.getByRole('heading', { name: '请求' }).waitFor();
  expect(await again.locator('html').getAttribute('data-theme')).toBe('dark');
  await other.close();
  await close();
});
