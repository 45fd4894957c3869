import { resolve } from "node:path";
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  // Nothing inline: the live page runs under `default-src 'self'`.
  build: {
    outDir: resolve(import.meta.dirname, "../src/lookleft/explore/static"),
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: false,
    rolldownOptions: {
      // d3-scale-chromatic makes all its palettes when imported. Calling these changes nothing,
      // so the palettes that are not used can go.
      treeshake: { manualPureFunctions: ["colors", "ramp", "ramp$1", "Array", "cubehelix", "rgb"] },
      output: {
        entryFileNames: "assets/app.js",
        assetFileNames: "assets/[name][extname]",
      },
    },
  },
  test: { include: ["test/**/*.test.ts"] },
});
