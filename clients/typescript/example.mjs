// Writes examples/headgate-client.js: the client as one file, for a page that installs nothing.
import { build } from "esbuild";

await build({
  entryPoints: ["client/src/index.ts"],
  outfile: process.argv[2] ?? "../../examples/headgate-client.js",
  bundle: true,
  format: "esm",
  target: "es2022",
  banner: { js: "// Made of clients/typescript/client by `npm run example`; not to be edited." },
});
