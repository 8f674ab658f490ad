import { useQuery } from '@tanstack/vue-query';
import { computed, type MaybeRefOrGetter, toValue } from 'vue';
import { getEvidence, type Ref } from '@/api/calls';
import { keys } from '@/api/keys';
import { mayChange, readChain } from './chain';

const AGAIN_MS = 2_000;

/**
 * The evidence of one request. Hints refresh it; while a link is open it is
 * also read again by itself, because not every fact (a first chunk) is hinted.
 */
export const useEvidence = (ref: MaybeRefOrGetter<Ref>) =>
  useQuery({
    queryKey: computed(() => keys.evidence(toValue(ref))),
    queryFn: ({ signal }) => getEvidence(toValue(ref), signal),
    refetchInterval: (query) =>
      query.state.data && mayChange(readChain(query.state.data)) ? AGAIN_MS : false,
  });
