import { onScopeDispose, readonly, ref, type Ref } from 'vue';

// One clock for the whole page: a thousand ages on it cost one timer.
const now = ref(Date.now());
let readers = 0;
let timer: ReturnType<typeof setInterval> | undefined;

function tick(): void {
  if (document.visibilityState === 'visible') now.value = Date.now();
}

/** The time, advanced every second while the page is visible; for ages. */
export function useNow(): Readonly<Ref<number>> {
  if (readers++ === 0) {
    tick();
    timer = setInterval(tick, 1000);
  }
  onScopeDispose(() => {
    if (--readers === 0) clearInterval(timer);
  });
  return readonly(now);
}
