import { keepPreviousData, useQuery } from '@tanstack/vue-query';
import { computed } from 'vue';
import { useRoute, useRouter } from 'vue-router';
import { fitNodes } from '@/api/calls';
import { keys } from '@/api/keys';
import { cardCounts, readSize, type CardCount, type Question } from './fit';

/** The question stands in the address, so that an answer can be shared; it is asked again when a node changes. */
export function useFit() {
  const route = useRoute();
  const router = useRouter();

  const gpus = computed<CardCount>(
    () => cardCounts.find((n) => n === route.query.gpus) ?? cardCounts[0],
  );
  const question = computed<Question | undefined>(() => {
    const mib = readSize(String(route.query.fit ?? ''));
    return mib === undefined ? undefined : { mib, gpus: Number(gpus.value) };
  });
  const query = useQuery({
    queryKey: computed(() => keys.fit(question.value?.mib ?? 0, question.value?.gpus ?? 1)),
    queryFn: ({ signal }) =>
      fitNodes({ gpuMemoryMiB: question.value?.mib ?? 0, gpus: question.value?.gpus ?? 1 }, signal),
    enabled: computed(() => question.value !== undefined),
    staleTime: 0,
    placeholderData: keepPreviousData,
  });

  const ask = (to: { mib?: number; gpus: CardCount }) =>
    router.replace({
      query: {
        ...route.query,
        fit: to.mib === undefined ? undefined : String(to.mib),
        gpus: to.gpus === cardCounts[0] ? undefined : to.gpus,
      },
    });

  return { question, gpus, ask, ...query };
}
