import createClient, { type Middleware } from 'openapi-fetch';
import type { components, paths } from './schema';

export type Schemas = components['schemas'];
export type Request = Schemas['Request'];
export type State = Schemas['State'];
export type Session = Schemas['Session'];
export type Submit = Schemas['Submit'];
export type Evidence = Schemas['Evidence'];
export type EvidenceStep = Schemas['EvidenceStep'];
export type Trace = Schemas['Trace'];
export type ServedModel = Schemas['ServedModel'];
export type Node = Schemas['Node'];
export type Card = Schemas['Card'];
export type FitQuestion = Schemas['FitQuestion'];
export type Fit = Schemas['Fit'];
export type Tenant = Schemas['Tenant'];
export type Pool = Schemas['Pool'];
export type WarmPool = Schemas['WarmPool'];
export type Limits = Schemas['Limits'];
export type Rates = Schemas['Rates'];
export type Usage = Schemas['Usage'];
export type UsageCourse = Schemas['UsageCourse'];
export type JournalEntry = Schemas['JournalEntry'];
export type ModelVersion = Schemas['ModelVersion'];
export type Key = Schemas['Key'];
export type NewKey = Schemas['NewKey'];
export type CreatedKey = Schemas['CreatedKey'];
export type Grant = Schemas['Grant'];
export type VerifyReport = Schemas['VerifyReport'];
export type DiagnosticPart = Schemas['DiagnosticPart'];

/** What the server said about a call that it refused, or that never reached it (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly field?: string,
    readonly retryAfterSeconds?: number,
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

/** What the client needs of a session: the token for writes, and news of its end. */
export interface Credentials {
  csrfToken(): string | undefined;
  onUnauthorized(): void;
}

let credentials: Credentials = { csrfToken: () => undefined, onUnauthorized: () => undefined };

/** Called once, by the session, when the app starts. */
export function useCredentials(c: Credentials): void {
  credentials = c;
}

/** Headers for a write by cookie. */
export function csrfHeaders(): Record<string, string> {
  const token = credentials.csrfToken();
  return token ? { 'X-CSRF-Token': token } : {};
}

const session: Middleware = {
  onRequest({ request }) {
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      for (const [name, value] of Object.entries(csrfHeaders())) request.headers.set(name, value);
    }
    return request;
  },
  onResponse({ response, schemaPath }) {
    if (response.status === 401 && schemaPath !== '/session') credentials.onUnauthorized();
    return undefined;
  },
};

export const api = createClient<paths>({
  baseUrl: location.origin,
  credentials: 'same-origin',
  // Looked up at every call, so that a test can put its own in place.
  fetch: (request) => globalThis.fetch(request),
});
api.use(session);

/** Whether the server answers at all, whatever it says. */
export const isReachable = (path: string): Promise<boolean> =>
  globalThis.fetch(path, { method: 'HEAD', cache: 'no-store' }).then(
    () => true,
    () => false,
  );

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The data of a call, or an ApiError with the server's own words. */
export async function unwrap<T>(call: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await call;
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === 'AbortError') throw cause;
    throw new ApiError(0, 'unreachable', cause instanceof Error ? cause.message : String(cause));
  }
  if (answer.response.ok) return answer.data as T;
  throw apiError(answer.response, answer.error);
}

/** Reads the error body of either API; anything else becomes the status line. */
export function apiError(response: Response, body: unknown): ApiError {
  const retry = Number(response.headers.get('Retry-After') ?? '');
  const after = Number.isFinite(retry) && retry > 0 ? retry : undefined;
  const e = errorBody(body);
  if (e) return new ApiError(response.status, e.code, e.message, e.field, after);
  const line = `HTTP ${response.status} ${response.statusText}`.trim();
  return new ApiError(response.status, `http_${response.status}`, line, undefined, after);
}

/** The `error` object of a body, of the management API or of the gateway. */
export function errorBody(
  body: unknown,
): { code: string; message: string; field?: string } | undefined {
  if (typeof body !== 'object' || body === null || !('error' in body)) return undefined;
  const e = (body as { error: unknown }).error;
  if (typeof e === 'string') return { code: 'error', message: e };
  if (typeof e !== 'object' || e === null) return undefined;
  const { code, type, message, field } = e as Record<string, unknown>;
  return {
    code: firstText(code, type) ?? 'error',
    message: firstText(message, code, type) ?? 'error',
    field: firstText(field),
  };
}

function firstText(...candidates: unknown[]): string | undefined {
  return candidates.find((c): c is string => typeof c === 'string' && c !== '');
}
