import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const place = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  base: "./", // the gateway says in <base> where the console is
  publicDir: false,
  resolve: { alias: { "@headgate/client": place("../clients/typescript/client/src/index.ts") } },
  build: {
    outDir: place("../app/console"),
    emptyOutDir: true,
    target: "es2023",
    assetsInlineLimit: 0, // nothing inline: the page may load files only
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    reportCompressedSize: true,
  },
});
