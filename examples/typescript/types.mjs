// Writes frames.d.ts: what is said over the WebSocket, made of the AsyncAPI document.
import { readFile, writeFile } from "node:fs/promises";
import { compile } from "json-schema-to-typescript";

const source = process.argv[2] ?? "../../openapi/asyncapi.json";
const { components } = JSON.parse(await readFile(source, "utf8"));
const text = JSON.stringify(components.schemas).replaceAll("#/components/schemas/", "#/$defs/");
const $defs = withoutTitles(JSON.parse(text));

// A title would become a type of its own, one for every field.
function withoutTitles(schemas) {
  for (const schema of Object.values(schemas)) {
    for (const field of Object.values(schema.properties ?? {})) delete field.title;
  }
  return schemas;
}

function frames(direction) {
  return Object.entries(components.messages)
    .filter(([name]) => name.startsWith(direction))
    .map(([, { payload }]) => ({ $ref: payload.$ref.replace("#/components/schemas/", "#/$defs/") }));
}

const all = {
  $defs,
  type: "object",
  required: ["client", "server"],
  properties: {
    client: { title: "ClientFrame", oneOf: frames("receive_") },
    server: { title: "ServerFrame", oneOf: frames("send_") },
  },
};
const bannerComment = "// Made by `npm run types` of openapi/asyncapi.json; not to be edited.";
const options = { additionalProperties: false, bannerComment, ignoreMinAndMaxItems: true };
await writeFile("frames.d.ts", await compile(all, "Frames", options));
