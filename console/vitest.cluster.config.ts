import { defineConfig } from 'vitest/config';

// The story in a browser against a ModelDock that runs already (MODELDOCK_URL,
// MODELDOCK_KEYS): on a real cluster, started by test/cluster/oncluster.
export default defineConfig({
  test: {
    environment: 'node',
    include: ['tests/cluster/*.test.ts'],
    fileParallelism: false,
    testTimeout: 240_000,
    hookTimeout: 60_000,
  },
});
