// A session with the client that @hey-api/openapi-ts makes.
import { ackEntries, appendEntry, createGroup, listPending, readGroup } from "./client/index.js";
import type { Problem } from "./client/index.js";
import { client } from "./client/client.gen.js";

client.setConfig({ baseUrl: process.argv[2] });

const path = { stream: "talk", group: "readers" };
const query = { consumer: "me" };
const throwOnError = true;
const unknown = await appendEntry({ path: { stream: "talk" }, body: { fields: { text: "zero" } } });
client.setConfig({ baseUrl: process.argv[2], auth: () => process.env.HEADGATE_TOKEN });
const ids: string[] = [];
for (const text of ["one", "two", "three"]) {
  const body = { fields: { text } };
  const { data } = await appendEntry({ path: { stream: "talk" }, body, throwOnError });
  ids.push(data.id);
}
const group = await createGroup({ path, body: { start: "0" }, throwOnError });
const read = await readGroup({ path, query, body: { limit: 2 }, throwOnError });
const acked = await ackEntries({ path, query, body: { ids: ids.slice(0, 1) }, throwOnError });
const pending = await listPending({ path, query, throwOnError });
const refused = await readGroup({ path: { stream: "talk", group: "nobody" }, query, body: {} });
const problem: Problem | undefined = refused.error;

console.log(
  JSON.stringify({
    ids,
    lag: group.data.lag,
    read: read.data.entries.map((entry) => [entry.id, entry.fields.text]),
    outcomes: acked.data.results.map((one) => one.outcome),
    pending: pending.data.pending.map((one) => [one.id, one.consumer]),
    problem: problem?.code,
    refused: (unknown.error as Problem | undefined)?.code,
  }),
);
