import { useQueries } from '@tanstack/vue-query';
import { computed } from 'vue';
import { getEvidence } from '@/api/calls';
import type { Evidence } from '@/api/client';
import { keys } from '@/api/keys';
import { useDiagnostics, useModels, useNodes, useRequests, useVerification } from '@/api/queries';
import { useSession } from '@/app/session';
import { attention, toExplain } from './attention';

// Each is one call: a page that is opened often must not ask for thousands.
const MOST_EVIDENCE = 20;
const AGAIN_MS = 10_000;

/** Reads what the role may read and says what needs attention. */
export function useAttention() {
  const { isAdmin, seesAll } = useSession();
  const requests = useRequests();
  const models = useModels();
  const nodes = useNodes();
  const ledger = useVerification(isAdmin);
  const parts = useDiagnostics(seesAll);

  const explained = computed(() => toExplain(requests.data.value?.items ?? [], MOST_EVIDENCE));
  const evidence = useQueries({
    queries: computed(() =>
      explained.value.map(({ tenant, id }) => ({
        queryKey: keys.evidence({ tenant, id }),
        queryFn: ({ signal }: { signal: AbortSignal }) => getEvidence({ tenant, id }, signal),
        refetchInterval: AGAIN_MS,
      })),
    ),
  });

  const asked = computed(() => [
    requests,
    models,
    nodes,
    ...(isAdmin.value ? [ledger] : []),
    ...(seesAll.value ? [parts] : []),
  ]);
  const items = computed(() =>
    attention({
      requests: requests.data.value?.items,
      evidence: evidence.value.map((e) => e.data).filter((e): e is Evidence => e !== undefined),
      models: models.data.value,
      nodes: nodes.data.value,
      ledger: ledger.data.value,
      parts: parts.data.value,
    }),
  );

  return {
    items,
    /** Whether everything was read, so that "nothing" is a statement. */
    complete: computed(
      () =>
        asked.value.every((q) => q.data.value !== undefined) &&
        evidence.value.every((e) => e.data !== undefined),
    ),
    error: computed(() => asked.value.map((q) => q.error.value).find((e) => e)),
    /** When the oldest answer that is still shown was read, in ms since 1970. */
    shownFrom: computed(() => {
      const read = asked.value.filter((q) => q.data.value !== undefined);
      return read.length > 0 ? Math.min(...read.map((q) => q.dataUpdatedAt.value)) : undefined;
    }),
    retry: () => asked.value.forEach((q) => q.error.value && void q.refetch()),
    requests: requests.data,
    models: models.data,
    nodes: nodes.data,
    most: MOST_EVIDENCE,
    cut: computed(
      () =>
        (requests.data.value?.items.filter((r) => r.state === 'reserved').length ?? 0) >
        MOST_EVIDENCE,
    ),
  };
}
