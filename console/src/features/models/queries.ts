import { useQuery } from '@tanstack/vue-query';
import { computed, type MaybeRefOrGetter, toValue } from 'vue';
import { getEvidence, getScaling, type Ref } from '@/api/calls';
import { keys } from '@/api/keys';

const AGAIN_MS = 5_000;

/** The evidence of a version's request; a first chunk is not hinted, so it is read again. */
export const useVersionEvidence = (ref: MaybeRefOrGetter<Ref>, wanted: MaybeRefOrGetter<boolean>) =>
  useQuery({
    queryKey: computed(() => keys.evidence(toValue(ref))),
    queryFn: ({ signal }) => getEvidence(toValue(ref), signal),
    enabled: computed(() => toValue(wanted)),
    refetchInterval: AGAIN_MS,
  });

/** Decisions are made every few seconds and not hinted, so they are read again. */
export const useScaling = (ref: MaybeRefOrGetter<Ref>) =>
  useQuery({
    queryKey: computed(() => keys.scaling(toValue(ref))),
    queryFn: ({ signal }) => getScaling(toValue(ref), signal),
    refetchInterval: (query) => (query.state.error ? false : AGAIN_MS),
  });
