// Writes what the packages know of the contract: client/src/wire/frames.ts of the AsyncAPI document, as it is on
// the wire, and client/src/wire/types.ts of the OpenAPI document, with names in camelCase.
import { readFile, writeFile } from "node:fs/promises";
import { compile } from "json-schema-to-typescript";

const documents = "../../openapi";
const [openapi = `${documents}/openapi.json`, asyncapi = `${documents}/asyncapi.json`, folder = "client/src/wire"] =
  process.argv.slice(2);

/** Types that programs see, by their names in the document; classes have some of these names. */
const PUBLIC = {
  Entry: "Entry", Delivery: "Delivery", EntryInput: "EntryInput", Entries: "Entries", GroupEntries: "GroupEntries",
  Appended: "Appended", AppendedBatch: "AppendedBatch", Closed: "ClosedStream", Settled: "Settled", SettledEntries: "SettledEntries",
  Stream: "StreamInfo", StreamDetail: "StreamDetail", StreamConfig: "StreamConfig", Streams: "Streams", Trim: "Trim",
  Deletion: "Deletion", Deletions: "Deletions", Group: "GroupInfo", Groups: "Groups", GroupInput: "GroupInput",
  GroupPatch: "GroupPatch", Policy: "Policy", Consumers: "Consumers", GroupConsumer: "GroupConsumer",
  GroupKey: "GroupKey", GroupKeyList: "GroupKeys", NoisyKey: "NoisyKey",
  ReadGroup: "ReadGroup", Nack: "Nack", Claim: "Claim", Claimed: "Claimed", Autoclaim: "Autoclaim",
  Autoclaimed: "Autoclaimed", PendingEntry: "PendingEntry", PendingSummary: "PendingSummary", Redrive: "Redrive",
  Redriven: "Redriven", RedrivenLetters: "RedrivenEntries", PendingEntries: "PendingEntries", Trimmed: "Trimmed",
  DeletedEntries: "DeletedEntries", DeletedConsumer: "DeletedConsumer", Ticket: "Ticket", TicketRequest: "TicketRequest", Gap: "Gap", Schedule: "ScheduleInfo",
  Schedules: "Schedules", Push: "PushInfo", PushInput: "PushInput", PatternPushInput: "PatternPushInput", PushSummary: "PushSummary", PushAttempt: "PushAttempt", PushAttempts: "PushAttempts", PushReplay: "PushReplay", PushReplayInput: "PushReplayInput", Pushes: "Pushes",
  ReadGroups: "ReadGroups", GroupsEntries: "GroupsEntries", StreamDelivery: "StreamDelivery", MissingGroups: "MissingGroups",
  StreamIds: "StreamIds", SettledStream: "SettledStream", SettledStreams: "SettledStreams", RetriedPush: "RetriedPush", CommitStepInput: "CommitStep", CommitDone: "CommitDone", PresentMembers: "PresentMembers", PresentMember: "PresentMember", PresentConnection: "PresentConnection", Row: "Row", TableRows: "TableRows", RowWritten: "RowWritten",
  Problem: "ProblemDetails", RowProblem: "RowProblemDetails", FenceProblem: "FenceProblemDetails",
};

const camel = (name) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
const options = { additionalProperties: false, ignoreMinAndMaxItems: true };
const banner = (source) => ({ bannerComment: `// Made by \`npm run types\` of ${source}; not to be edited.` });
const refer = (name) => ({ $ref: `#/$defs/${name}` });

async function schemasOf(path, names = {}) {
  const { components } = JSON.parse(await readFile(path, "utf8"));
  const text = JSON.stringify(components.schemas).replace(
    /#\/components\/schemas\/(\w+)/g,
    (_, name) => `#/$defs/${names[name] ?? name}`,
  );
  const entries = Object.entries(JSON.parse(text)).map(([name, schema]) => [names[name] ?? name, untitled(schema)]);
  return { $defs: Object.fromEntries(entries), components };
}

// A title would become a type of its own, one for every field.
function untitled(schema) {
  delete schema.title;
  for (const field of Object.values(schema.properties ?? {})) delete field.title;
  return schema;
}

function renamed(schema) {
  if (schema.properties) {
    schema.properties = Object.fromEntries(Object.entries(schema.properties).map(([name, of]) => [camel(name), of]));
    schema.required = schema.required?.map(camel);
  }
  return schema;
}

async function frames() {
  const { $defs, components } = await schemasOf(asyncapi);
  const sent = (direction) =>
    Object.entries(components.messages)
      .filter(([name]) => name.startsWith(direction))
      .map(([, { payload }]) => refer(payload.$ref.split("/").at(-1)));
  const properties = {
    client: { title: "ClientFrame", oneOf: sent("receive_") },
    server: { title: "ServerFrame", oneOf: sent("send_") },
  };
  const all = { $defs, type: "object", required: ["client", "server"], properties };
  return compile(all, "Frames", { ...options, ...banner("openapi/asyncapi.json") });
}

async function types() {
  const { $defs } = await schemasOf(openapi, PUBLIC);
  for (const schema of Object.values($defs)) renamed(schema);
  const names = Object.values(PUBLIC);
  const properties = Object.fromEntries(names.map((name) => [name, refer(name)]));
  const all = { $defs, type: "object", required: names, properties };
  return compile(all, "Types", { ...options, ...banner("openapi/openapi.json") });
}

await writeFile(`${folder}/frames.ts`, await frames());
await writeFile(`${folder}/types.ts`, await types());
