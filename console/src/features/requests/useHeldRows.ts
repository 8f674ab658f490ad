import { computed, shallowRef, watch, type Ref } from 'vue';
import type { Request } from '@/api/client';
import { holdBack, keyOf, select, type StateFilter } from './list';

/**
 * The rows to show. While somebody reads (has scrolled, or has a request
 * open), requests that arrive are held back and only counted.
 */
export function useHeldRows(
  items: Ref<readonly Request[]>,
  state: Ref<StateFilter>,
  text: Ref<string>,
  reading: Ref<boolean>,
) {
  const known = shallowRef<ReadonlySet<string>>(new Set());
  const all = computed(() => select(items.value, state.value, text.value));
  const learn = () => (known.value = new Set(items.value.map(keyOf)));

  // What was there when the reading began is known; what arrives meanwhile waits.
  // Nobody asks before, so that nothing is collected while the list only flows.
  watch(reading, (now) => now && learn(), { immediate: true, flush: 'sync' });
  // A page that is opened on a request has nothing to hold back yet.
  watch(items, (now, before) => reading.value && before.length === 0 && now.length > 0 && learn());

  const split = computed(() =>
    reading.value ? holdBack(all.value, known.value) : { rows: all.value, held: 0 },
  );

  return {
    rows: computed(() => split.value.rows),
    held: computed(() => split.value.held),
    showHeld: learn,
  };
}
