import {
  api,
  unwrap,
  type FitQuestion,
  type Limits,
  type NewKey,
  type Request,
  type Schemas,
  type Session,
  type Submit,
} from './client';

// Every call of the console in one place: components and queries hold no
// paths. Calls on one request always carry its tenant, which an admin or
// viewer must name and which is harmless for the tenant itself.

/** Names one request: two tenants may use the same id. */
export interface Ref {
  tenant: string;
  id: string;
}

const one = ({ tenant, id }: Ref) => ({ params: { path: { id }, query: { tenant } } });

const PAGE = 1000;
const MAX_PAGES = 10;

/** All requests that the session may see, oldest first; `more` where the list was cut. */
export interface RequestList {
  items: Request[];
  more: boolean;
}

export async function listRequests(signal?: AbortSignal): Promise<RequestList> {
  const items: Request[] = [];
  let after: string | undefined;
  for (let page = 0; page < MAX_PAGES; page++) {
    const query = after ? { limit: PAGE, after } : { limit: PAGE };
    const answer = await unwrap(api.GET('/requests', { params: { query }, signal }));
    items.push(...answer.items);
    if (!answer.next) return { items, more: false };
    after = answer.next;
  }
  return { items, more: true };
}

export const getRequest = (ref: Ref, signal?: AbortSignal) =>
  unwrap(api.GET('/requests/{id}', { ...one(ref), signal }));

export const submitRequest = (body: Submit) => unwrap(api.POST('/requests', { body }));

export const releaseRequest = (ref: Ref) =>
  unwrap(api.POST('/requests/{id}/release', { ...one(ref) }));

export const getEvidence = (ref: Ref, signal?: AbortSignal) =>
  unwrap(api.GET('/requests/{id}/evidence', { ...one(ref), signal }));

export const getJournal = async (ref: Ref, signal?: AbortSignal) =>
  (await unwrap(api.GET('/requests/{id}/journal', { ...one(ref), signal }))).items;

/** The last lines of a replica's output; of the first that runs where none is named. */
export const getLogs = (
  { tenant, id }: Ref,
  replica: string | undefined,
  tail: number,
  signal?: AbortSignal,
) =>
  unwrap(
    api.GET('/requests/{id}/logs', {
      params: { path: { id }, query: { tenant, tail, replica } },
      parseAs: 'text',
      signal,
    }),
  );

export const getTrace = (requestId: string, signal?: AbortSignal) =>
  unwrap(api.GET('/traces/{requestId}', { params: { path: { requestId } }, signal }));

export const listModels = async (signal?: AbortSignal) =>
  (await unwrap(api.GET('/models', { signal }))).items;

export const listNodes = async (signal?: AbortSignal) =>
  (await unwrap(api.GET('/nodes', { signal }))).items;

/** Why a model has so many replicas, and how that changed. */
export const getScaling = (ref: Ref, signal?: AbortSignal) =>
  unwrap(api.GET('/requests/{id}/scaling', { ...one(ref), signal }));

/** Replays a trace through the decisions that scale models; nothing is changed. */
export const simulate = (body: Schemas['Simulate']) => unwrap(api.POST('/simulate', { body }));

/** Would a model fit now, and where? Nothing is placed. */
export const fitNodes = (body: FitQuestion, signal?: AbortSignal) =>
  unwrap(api.POST('/nodes/fit', { body, signal }));

export const listTenants = async (signal?: AbortSignal) =>
  (await unwrap(api.GET('/tenants', { signal }))).items;

export const listPools = async (signal?: AbortSignal) =>
  (await unwrap(api.GET('/pools', { signal }))).items;

export const listWarmPools = async (signal?: AbortSignal) =>
  (await unwrap(api.GET('/warmpools', { signal }))).items;

export const putQuota = (tenant: string, cap: number) =>
  unwrap(api.PUT('/tenants/{tenant}/quota', { params: { path: { tenant } }, body: { cap } }));

export const putPool = (pool: string, cap: number) =>
  unwrap(api.PUT('/pools/{pool}', { params: { path: { pool } }, body: { cap } }));

/** Replaces all limits: what is left out is not limited. */
export const putLimits = (tenant: string, body: Limits) =>
  unwrap(api.PUT('/tenants/{tenant}/limits', { params: { path: { tenant } }, body }));

/** The course of every quota and pool over the last hours. */
export const getUsage = (hours: number, signal?: AbortSignal) =>
  unwrap(api.GET('/usage', { params: { query: { hours } }, signal }));

export const listKeys = async (signal?: AbortSignal) =>
  (await unwrap(api.GET('/keys', { signal }))).items;

/** The answer holds the secret; it is shown once and kept nowhere. */
export const createKey = (body: NewKey) => unwrap(api.POST('/keys', { body }));

export const revokeKey = (keyId: string) =>
  unwrap(api.DELETE('/keys/{keyId}', { params: { path: { keyId } } }));

export const listGrants = async (signal?: AbortSignal) =>
  (await unwrap(api.GET('/grants', { signal }))).items;

/** A grant lets another tenant call one model. */
export interface GrantRef {
  owner: string;
  model: string;
  grantee: string;
}

export const putGrant = ({ owner, model, grantee }: GrantRef) =>
  unwrap(
    api.PUT('/grants/{owner}/{model}/{grantee}', { params: { path: { owner, model, grantee } } }),
  );

export const deleteGrant = ({ owner, model, grantee }: GrantRef) =>
  unwrap(
    api.DELETE('/grants/{owner}/{model}/{grantee}', {
      params: { path: { owner, model, grantee } },
    }),
  );

export const verifyLedger = (signal?: AbortSignal) => unwrap(api.GET('/ledger/verify', { signal }));

export const getDiagnostics = async (signal?: AbortSignal) =>
  (await unwrap(api.GET('/diagnostics', { signal }))).parts;

export const readSession = (): Promise<Session> => unwrap(api.GET('/session'));

/** The key is sent once and kept nowhere; the answer sets a cookie that scripts cannot read. */
export const openSession = (key: string): Promise<Session> =>
  unwrap(api.POST('/session', { body: { key } }));

export const closeSession = () => unwrap(api.DELETE('/session'));
