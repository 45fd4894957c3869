import { defineConfig } from "vitest/config";

// Run by tests/explore/test_page_in_browser.py, which starts the server and computes the numbers.
export default defineConfig({
  test: {
    include: ["e2e/**/*.test.ts"],
    fileParallelism: false,
    testTimeout: 240_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 30_000, interval: 50 } },
  },
});
