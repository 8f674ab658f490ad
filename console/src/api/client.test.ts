// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { releaseRequest, submitRequest, getRequest } from './calls';
import { api, ApiError, errorBody, unwrap, useCredentials } from './client';

const asked: Request[] = [];
let answer: () => Response;
const ended = vi.fn();

beforeEach(() => {
  asked.length = 0;
  ended.mockReset();
  useCredentials({ csrfToken: () => 'token-1', onUnauthorized: ended });
  vi.stubGlobal('fetch', (request: Request) => {
    asked.push(request);
    return Promise.resolve(answer());
  });
});
afterEach(() => vi.unstubAllGlobals());

const json = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify(body), {
    status,
    headers: { 'Content-Type': 'application/json', ...headers },
  });
const failed = (call: Promise<unknown>) =>
  call.then(
    () => expect.fail('the call did not fail'),
    (e: unknown) => e as ApiError,
  );

describe('calls', () => {
  test('on one request name its tenant, and escape its id', async () => {
    answer = () => json(200, {});
    await getRequest({ tenant: 'team b', id: 'a/b?c' });
    const url = new URL(asked[0]?.url ?? '');
    expect(url.pathname).toBe('/requests/a%2Fb%3Fc');
    expect(url.searchParams.get('tenant')).toBe('team b');
  });

  test('carry the token on writes only', async () => {
    answer = () => json(202, {});
    await submitRequest({ id: 'a', cost: 1, priority: 1 });
    await releaseRequest({ tenant: 't', id: 'a' });
    await getRequest({ tenant: 't', id: 'a' });
    expect(asked.map((r) => r.headers.get('X-CSRF-Token'))).toEqual(['token-1', 'token-1', null]);
  });
});

describe('errors', () => {
  test('keep the code, the words, the field and how long to wait', async () => {
    answer = () =>
      json(
        503,
        { error: { code: 'unavailable', message: 'the ledger cannot answer', field: 'cost' } },
        { 'Retry-After': '3' },
      );
    const e = await failed(unwrap(api.GET('/requests')));
    expect(e).toBeInstanceOf(ApiError);
    expect(e).toMatchObject({
      status: 503,
      code: 'unavailable',
      message: 'the ledger cannot answer',
      field: 'cost',
      retryAfterSeconds: 3,
    });
  });

  test('that are no JSON become the status, never an empty message', async () => {
    answer = () => new Response('<html>', { status: 502, statusText: 'Bad Gateway' });
    expect(await failed(unwrap(api.GET('/requests')))).toMatchObject({
      code: 'http_502',
      message: 'HTTP 502 Bad Gateway',
    });
  });

  test('of a server that is away have status 0', async () => {
    vi.stubGlobal('fetch', () => Promise.reject(new TypeError('Failed to fetch')));
    expect(await failed(unwrap(api.GET('/requests')))).toMatchObject({
      status: 0,
      code: 'unreachable',
    });
  });

  test('401 ends the session, but asking who is signed in does not', async () => {
    answer = () => json(401, { error: { code: 'unauthorised', message: 'no' } });
    await failed(unwrap(api.GET('/session')));
    expect(ended).not.toHaveBeenCalled();
    await failed(unwrap(api.GET('/requests')));
    expect(ended).toHaveBeenCalledOnce();
  });

  test.each([
    [
      { error: { message: 'm', type: 'server_error', code: null } },
      { code: 'server_error', message: 'm' },
    ],
    [
      { error: { message: 'm', type: 't', code: 'upstream_cut' } },
      { code: 'upstream_cut', message: 'm' },
    ],
    [{ error: 'plain' }, { code: 'error', message: 'plain' }],
    [{ error: {} }, { code: 'error', message: 'error' }],
    [{ choices: [] }, undefined],
    [null, undefined],
    ['text', undefined],
  ])('errorBody reads %j', (body, want) => {
    const got = errorBody(body);
    if (!want) expect(got).toBeUndefined();
    else expect(got).toMatchObject(want);
  });
});
