import { computed } from 'vue';
import { useRoute, useRouter } from 'vue-router';
import { stateFilters, type StateFilter } from './list';

/** The filter of the list. It lives in the address, so that it can be shared and survives a reload. */
export function useFilter() {
  const route = useRoute();
  const router = useRouter();

  const put = (name: 'state' | 'q', value: string) => {
    // An undefined value leaves the address.
    void router.replace({ query: { ...route.query, [name]: value || undefined } });
  };

  const state = computed<StateFilter>({
    get: () => stateFilters.find((s) => s === route.query.state) ?? 'all',
    set: (value) => put('state', value === 'all' ? '' : value),
  });
  const text = computed<string>({
    get: () => (typeof route.query.q === 'string' ? route.query.q : ''),
    set: (value) => put('q', value),
  });
  const clear = () => void router.replace({ query: {} });

  return { state, text, clear };
}
