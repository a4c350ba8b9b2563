// Writes the clients in TypeScript as files that the gateway serves: archives that npm installs, and
// a module for pages that install nothing. `npm run clients` has compiled them before.
import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

const place = (path) => fileURLToPath(new URL(path, import.meta.url));
const sources = place("../clients/typescript"), compiled = place("node_modules/.clients"), served = place("../app/clients");

rmSync(served, { recursive: true, force: true });
mkdirSync(served, { recursive: true });
for (const name of ["client", "react"]) {
  const folder = `${compiled}/${name}`;
  rmSync(`${folder}/dist`, { recursive: true, force: true });
  cpSync(`${folder}/src`, `${folder}/dist`, { recursive: true });
  for (const file of ["package.json", "README.md", "LICENSE"]) cpSync(`${sources}/${name}/${file}`, `${folder}/${file}`);
  // npm packs files as the umask has made them, and a release has the same bytes everywhere.
  for (const file of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    chmodSync(`${file.parentPath ?? file.path}/${file.name}`, file.isDirectory() ? 0o755 : 0o644);
  }
  // npm of this Node, and not another one on the path.
  execFileSync(process.execPath, [process.env.npm_execpath, "pack", folder, "--pack-destination", served, "--silent"]);
}
const bundle = await rolldown({ input: `${compiled}/client/dist/index.js` });
await bundle.write({ file: `${served}/client.js`, format: "esm", minify: true, codeSplitting: false });
await bundle.close();
