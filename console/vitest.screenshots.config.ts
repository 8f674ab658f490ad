import { defineConfig } from 'vitest/config';

// Not a test: takes the pictures of docs/images (MODELDOCK_BIN, Chromium).
export default defineConfig({
  test: {
    environment: 'node',
    include: ['tests/screenshots/*.shots.ts'],
    fileParallelism: false,
    testTimeout: 300_000,
    hookTimeout: 120_000,
  },
});
