import { defineConfig } from 'vitest/config';

// Browser tests: they start a real ModelDock (MODELDOCK_BIN) and Chromium.
export default defineConfig({
  test: {
    environment: 'node',
    include: ['tests/e2e/**/*.test.ts'],
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
