// A session with openapi-fetch, over the types that openapi-typescript makes.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const authorization = `Bearer ${process.env.HEADGATE_TOKEN}`;
const client = createClient<paths>({ baseUrl: process.argv[2], headers: { authorization } });
const nobody = createClient<paths>({ baseUrl: process.argv[2] });

function there<T>(data: T | undefined): T {
  if (data === undefined) throw new Error("no data");
  return data;
}

const path = { stream: "talk", group: "readers" };
const query = { consumer: "me" };
const unknown = await nobody.POST("/v1/streams/{stream}/entries", {
  params: { path: { stream: "talk" } },
  body: { fields: { text: "zero" } },
});
const ids: string[] = [];
for (const text of ["one", "two", "three"]) {
  const { data } = await client.POST("/v1/streams/{stream}/entries", {
    params: { path: { stream: "talk" } },
    body: { fields: { text } },
  });
  ids.push(there(data).id);
}
const group = await client.PUT("/v1/streams/{stream}/groups/{group}", {
  params: { path },
  body: { start: "0" },
});
const read = await client.POST("/v1/streams/{stream}/groups/{group}/read", {
  params: { path, query },
  body: { limit: 2 },
});
const acked = await client.POST("/v1/streams/{stream}/groups/{group}/ack", {
  params: { path, query },
  body: { ids: ids.slice(0, 1) },
});
const pending = await client.GET("/v1/streams/{stream}/groups/{group}/pending", {
  params: { path, query },
});
const refused = await client.POST("/v1/streams/{stream}/groups/{group}/read", {
  params: { path: { stream: "talk", group: "nobody" }, query },
  body: { limit: 2 },
});
const problem: components["schemas"]["Problem"] = there(refused.error);

console.log(
  JSON.stringify({
    ids,
    lag: there(group.data).lag,
    read: there(read.data).entries.map((entry) => [entry.id, entry.fields.text]),
    outcomes: there(acked.data).results.map((one) => one.outcome),
    pending: there(pending.data).pending.map((one) => [one.id, one.consumer]),
    problem: problem.code,
    refused: there(unknown.error).code,
  }),
);
