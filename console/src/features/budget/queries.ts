import { useMutation, useQuery, useQueryClient } from '@tanstack/vue-query';
import type { Ref } from 'vue';
import {
  createKey,
  deleteGrant,
  listGrants,
  listKeys,
  putGrant,
  putPool,
  putQuota,
  revokeKey,
} from '@/api/calls';
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
    keys.requests,
  );

export const useCreateKey = () => useWrite(createKey, keys.apiKeys);
export const useRevokeKey = () => useWrite(revokeKey, keys.apiKeys);
export const usePutGrant = () => useWrite(putGrant, keys.grants, keys.models);
export const useDeleteGrant = () => useWrite(deleteGrant, keys.grants, keys.models);
