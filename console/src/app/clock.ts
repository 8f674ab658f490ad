import { onScopeDispose, ref, type Ref } from 'vue';

/** The time, advanced every second while the page is visible; for ages. */
export function useNow(): Ref<number> {
  const now = ref(Date.now());
  const timer = setInterval(() => {
    if (document.visibilityState === 'visible') now.value = Date.now();
  }, 1000);
  onScopeDispose(() => clearInterval(timer));
  return now;
}
