import { api, unwrap, type Request, type Session, type Submit } from './client';

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

/** The last lines of the engine's output. */
export const getLogs = ({ tenant, id }: Ref, tail: number, signal?: AbortSignal) =>
  unwrap(
    api.GET('/requests/{id}/logs', {
      params: { path: { id }, query: { tenant, tail } },
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

export const listTenants = async (signal?: AbortSignal) =>
  (await unwrap(api.GET('/tenants', { signal }))).items;

export const listPools = async (signal?: AbortSignal) =>
  (await unwrap(api.GET('/pools', { signal }))).items;

export const readSession = (): Promise<Session> => unwrap(api.GET('/session'));

/** The key is sent once and kept nowhere; the answer sets a cookie that scripts cannot read. */
export const openSession = (key: string): Promise<Session> =>
  unwrap(api.POST('/session', { body: { key } }));

export const closeSession = () => unwrap(api.DELETE('/session'));
