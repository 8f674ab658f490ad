import { onMounted, onUnmounted, ref } from 'vue';
import { stored } from './stored';

// Single keys, off in fields and switchable off (WCAG 2.1.4).
export const shortcuts = stored<'on' | 'off'>('shortcuts', ['on', 'off'], 'on');

/** Whether the list of shortcuts is shown. */
export const shortcutHelp = ref(false);

type Action = (event: KeyboardEvent) => void;

/** Whether a key press belongs to what has the focus and not to the page. */
export function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable) return true;
  return (
    /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.closest('[role="listbox"]') !== null
  );
}

const CHORD_MS = 1200;

/**
 * Binds keys for the life of the component. A binding is one key ("n") or two
 * in a row ("g r"); keys with a modifier are left to the browser.
 */
export function useShortcuts(bindings: Record<string, Action>): void {
  let before = '';
  let beforeAt = 0;
  const onKey = (event: KeyboardEvent) => {
    if (shortcuts.value === 'off' || event.defaultPrevented || event.isComposing) return;
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    const chord = Date.now() - beforeAt < CHORD_MS ? `${before} ${event.key}` : '';
    const action = bindings[chord] ?? (before === 'g' && chord ? undefined : bindings[event.key]);
    before = chord && bindings[chord] ? '' : event.key;
    beforeAt = Date.now();
    if (!action) return;
    event.preventDefault();
    action(event);
  };
  onMounted(() => window.addEventListener('keydown', onKey));
  onUnmounted(() => window.removeEventListener('keydown', onKey));
}
