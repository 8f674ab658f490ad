import { computed, ref, watchEffect } from 'vue';
import { stored } from './stored';

export type Theme = 'system' | 'light' | 'dark';

// Read by public/theme.js before the first paint, under the same name.
const choice = stored<Theme>('theme', ['system', 'light', 'dark'], 'system');
const query = typeof matchMedia === 'function' ? matchMedia('(prefers-color-scheme: dark)') : null;
const systemDark = ref(query?.matches ?? false);
query?.addEventListener('change', (e) => (systemDark.value = e.matches));

const shown = computed<'light' | 'dark'>(() => {
  if (choice.value !== 'system') return choice.value;
  return systemDark.value ? 'dark' : 'light';
});

watchEffect(() => (document.documentElement.dataset.theme = shown.value));

/** The theme that is shown, and a toggle to the other one. */
export function useTheme() {
  const toggle = () => (choice.value = shown.value === 'dark' ? 'light' : 'dark');
  return { shown, toggle };
}
