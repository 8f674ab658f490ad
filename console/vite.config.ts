import { fileURLToPath } from 'node:url';
import tailwindcss from '@tailwindcss/vite';
import vue from '@vitejs/plugin-vue';
import { defineConfig } from 'vite';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

// The Go server that `npm run dev` talks to.
const server = process.env.MODELDOCK_URL ?? 'http://127.0.0.1:8080';

export default defineConfig({
  base: '/console/',
  plugins: [vue(), tailwindcss()],
  resolve: { alias: { '@': here('./src') } },
  define: {
    __VUE_OPTIONS_API__: 'false',
    __VUE_PROD_DEVTOOLS__: 'false',
    __VUE_I18N_FULL_INSTALL__: 'false',
    __VUE_I18N_LEGACY_API__: 'false',
    __INTLIFY_PROD_DEVTOOLS__: 'false',
  },
  build: {
    // Beside the committed static/.gitkeep, never over it: `go build` must
    // work without Node, and with or without this folder.
    outDir: here('../internal/console/static/app'),
    emptyOutDir: true,
    target: 'es2022',
    // The polyfill would be an inline script, which the policy forbids, and
    // every browser of the target has module preload.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
  },
  server: {
    proxy: { '^/(?!console(/|$))': { target: server, changeOrigin: false } },
  },
});
