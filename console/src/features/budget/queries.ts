import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/vue-query';
import { computed, type Ref } from 'vue';
import {
  createKey,
  deleteGrant,
  getUsage,
  listGrants,
  listKeys,
  listWarmPools,
  putGrant,
  putLimits,
  putPool,
  putQuota,
  revokeKey,
} from '@/api/calls';
import type { Limits } from '@/api/client';
import { keys } from '@/api/keys';
import type { CapOf } from './rules';

/** For admins only; nobody else asks. */
export const useKeys = (wanted: Ref<boolean>) =>
  useQuery({
    queryKey: keys.apiKeys,
    queryFn: ({ signal }) => listKeys(signal),
    enabled: wanted,
  });

export const useGrants = () =>
  useQuery({ queryKey: keys.grants, queryFn: ({ signal }) => listGrants(signal) });

const MINUTE_MS = 60_000;
const WARM_MS = 10_000;

/** Hints make it fresh; read again every minute as well, because its end is now. */
export const useUsage = (hours: Ref<number>) =>
  useQuery({
    queryKey: computed(() => keys.usageOf(hours.value)),
    queryFn: ({ signal }) => getUsage(hours.value, signal),
    refetchInterval: MINUTE_MS,
    placeholderData: keepPreviousData,
  });

/** What pools keep ready; for admins and viewers. No event tells what is spent, so it is asked for. */
export const useWarmPools = () =>
  useQuery({
    queryKey: keys.warmPools,
    queryFn: ({ signal }) => listWarmPools(signal),
    refetchInterval: WARM_MS,
  });

/** A write after which the named lists are read again. */
function useWrite<V, R>(call: (variables: V) => Promise<R>, ...stale: (readonly string[])[]) {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: call,
    onSuccess: () =>
      Promise.all(stale.map((queryKey) => cache.invalidateQueries({ queryKey: [...queryKey] }))),
  });
}

export const useSetCap = () =>
  useWrite(
    async ({ kind, name, cap }: Pick<CapOf, 'kind' | 'name' | 'cap'>) => {
      if (kind === 'tenant') await putQuota(name, cap);
      else await putPool(name, cap);
    },
    keys.tenants,
    keys.pools,
    keys.usage,
    keys.requests,
  );

export const useSetLimits = () =>
  useWrite(
    ({ tenant, limits }: { tenant: string; limits: Limits }) => putLimits(tenant, limits),
    keys.tenants,
  );

export const useCreateKey = () => useWrite(createKey, keys.apiKeys);
export const useRevokeKey = () => useWrite(revokeKey, keys.apiKeys);
export const usePutGrant = () => useWrite(putGrant, keys.grants, keys.models);
export const useDeleteGrant = () => useWrite(deleteGrant, keys.grants, keys.models);
