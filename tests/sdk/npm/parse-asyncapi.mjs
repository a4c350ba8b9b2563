// Prints what the parser of AsyncAPI has to say about a document, as JSON.
import { readFile } from "node:fs/promises";
import { Parser } from "@asyncapi/parser";

const { document, diagnostics } = await new Parser({
  ruleset: { core: true, recommended: true },
}).parse(await readFile(process.argv[2], "utf8"));
const told = diagnostics.map(({ code, path, message }) => ({ code, path: path.join("/"), message }));
console.log(JSON.stringify({ is_document: document !== undefined, told }));
