import { QueryClient, VueQueryPlugin } from '@tanstack/vue-query';
import { createApp } from 'vue';
import { ApiError } from './api/client';
import App from './App.vue';
import { i18n, locale, showLocale } from './app/i18n';
import { router } from './app/router';
import { restoreSession } from './app/session';
import './app/theme';
import Unreachable from './app/Unreachable.vue';
import './styles/main.css';

const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      // The event stream says what changed; without it an answer is good for half a minute.
      staleTime: 30_000,
      refetchOnWindowFocus: false,
      // What the server refused it will refuse again; what it could not do may work now.
      retry: (failures, error) =>
        failures < 2 && (!(error instanceof ApiError) || error.status === 0 || error.status >= 502),
    },
  },
});

async function start(): Promise<void> {
  await showLocale(locale.value);
  try {
    await restoreSession();
  } catch (error) {
    // Without an answer nobody knows who is signed in: say so, and offer to ask again.
    createApp(Unreachable, { error }).use(i18n).mount('#app');
    return;
  }
  createApp(App).use(i18n).use(router).use(VueQueryPlugin, { queryClient }).mount('#app');
}

void start();
