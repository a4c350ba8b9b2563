// The bytes of gzip that a page with everything loads; code that is loaded later is not counted.
import { build } from "esbuild";
import { gzipSync } from "node:zlib";

const { outputFiles, metafile } = await build({
  stdin: { contents: 'export * from "@headgate/client";', resolveDir: "." },
  bundle: true, minify: true, splitting: true, format: "esm", target: "es2022",
  outdir: "out", write: false, metafile: true,
});
const first = new Set();
const visit = (name) => {
  first.add(name);
  const { imports } = metafile.outputs[name];
  for (const { path, kind } of imports) if (kind === "import-statement" && !first.has(path)) visit(path);
};
visit("out/stdin.js");
const files = outputFiles.filter(({ path }) => [...first].some((name) => path.endsWith(name)));
const bytes = files.map(({ contents }) => gzipSync(contents, { level: 9 }).length);
const first_bytes = bytes.reduce((sum, each) => sum + each, 0);
console.log(JSON.stringify({ first: first_bytes, files: files.length, all: outputFiles.length }));
