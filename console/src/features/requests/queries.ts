import { useMutation, useQuery, useQueryClient } from '@tanstack/vue-query';
import { computed, type MaybeRefOrGetter, toValue } from 'vue';
import { getRequest, releaseRequest, submitRequest, type Ref, type RequestList } from '@/api/calls';
import type { Request } from '@/api/client';
import { keys } from '@/api/keys';
import { patchList } from '@/api/live';

export function useRequest(ref: MaybeRefOrGetter<Ref>) {
  const cache = useQueryClient();
  return useQuery({
    queryKey: computed(() => keys.request(toValue(ref))),
    queryFn: ({ signal }) => getRequest(toValue(ref), signal),
    // The list has the record already: the drawer opens with it.
    placeholderData: () => {
      const { tenant, id } = toValue(ref);
      const list = cache.getQueryData<RequestList>(keys.requests);
      return list?.items.find((r) => r.id === id && r.tenant === tenant);
    },
  });
}

/** Both writes answer with the record, which goes straight into the list. */
function useRecordMutation<V>(call: (variables: V) => Promise<Request>) {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: call,
    onSuccess: (record) => {
      cache.setQueryData<RequestList>(keys.requests, (list) => patchList(list, record));
      void cache.invalidateQueries({ queryKey: keys.request(record) });
      void cache.invalidateQueries({ queryKey: keys.tenants });
      void cache.invalidateQueries({ queryKey: keys.pools });
    },
  });
}

export const useSubmit = () => useRecordMutation(submitRequest);
export const useRelease = () => useRecordMutation(releaseRequest);
