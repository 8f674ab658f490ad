import { useQuery } from '@tanstack/vue-query';
import { computed, type MaybeRefOrGetter, toValue } from 'vue';
import {
  getDiagnostics,
  getJournal,
  getLogs,
  listModels,
  listNodes,
  listPools,
  listRequests,
  listTenants,
  verifyLedger,
  type Ref,
} from './calls';
import { keys } from './keys';

// Queries that more than one view needs; a view's own are in its queries.ts.

// Ten thousand records: neither made reactive in depth nor compared in depth.
// A hint replaces single records of the list (live.ts) and keeps the others.
export const useRequests = () =>
  useQuery({
    queryKey: keys.requests,
    queryFn: ({ signal }) => listRequests(signal),
    shallow: true,
    structuralSharing: false,
  });

export const useModels = () =>
  useQuery({ queryKey: keys.models, queryFn: ({ signal }) => listModels(signal) });

// Compared in depth, so that a node that did not change is not drawn again.
export const useNodes = () =>
  useQuery({ queryKey: keys.nodes, queryFn: ({ signal }) => listNodes(signal), shallow: true });

export const useTenants = () =>
  useQuery({ queryKey: keys.tenants, queryFn: ({ signal }) => listTenants(signal) });

export const usePools = () =>
  useQuery({ queryKey: keys.pools, queryFn: ({ signal }) => listPools(signal) });

export const useJournal = (ref: MaybeRefOrGetter<Ref>) =>
  useQuery({
    queryKey: computed(() => keys.journal(toValue(ref))),
    queryFn: ({ signal }) => getJournal(toValue(ref), signal),
  });

const LOG_LINES = 200;

/** Which replica's output, and of which request. */
export interface LogRef extends Ref {
  replica?: string;
}

export const useLogs = (ref: MaybeRefOrGetter<LogRef>, wanted: MaybeRefOrGetter<boolean>) =>
  useQuery({
    queryKey: computed(() => keys.logs(toValue(ref), toValue(ref).replica)),
    queryFn: ({ signal }) => getLogs(toValue(ref), toValue(ref).replica, LOG_LINES, signal),
    enabled: computed(() => toValue(wanted)),
    staleTime: 0,
  });

/** The ledger's own verification; for admins. The server repeats it every minute, and so does this. */
export const useVerification = (wanted: MaybeRefOrGetter<boolean>) =>
  useQuery({
    queryKey: keys.verify,
    queryFn: ({ signal }) => verifyLedger(signal),
    enabled: computed(() => toValue(wanted)),
    refetchInterval: 60_000,
  });

/** Health of every part; for admins and viewers. No event tells of it, so it is asked for. */
export const useDiagnostics = (wanted: MaybeRefOrGetter<boolean>) =>
  useQuery({
    queryKey: keys.diagnostics,
    queryFn: ({ signal }) => getDiagnostics(signal),
    enabled: computed(() => toValue(wanted)),
    refetchInterval: 15_000,
  });
