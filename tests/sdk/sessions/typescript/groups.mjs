// Reads one group of all streams that match over both transports, and by requests; prints what came, by stream.
import { createClient } from "@headgate/client";
import WebSocket from "ws";

const [url] = process.argv.slice(2);
const came = {};
for (const [name, options] of [["socket", { WebSocket }], ["events", { transport: "events" }]]) {
  const hg = createClient({ url, ...options });
  const groups = hg.groups(name, { match: "orders.*", create: { start: "0", policy: { maxPending: 9 } }, weights: { "orders.a": 2 } });
  came[name] = [];
  for await (const job of groups.consume({ consumer: "me" })) {
    came[name].push(`${job.stream} ${job.fields.v} ${job.deliveries}`);
    if (job.fields.v === "2" && job.deliveries === 1) await job.nack({ mode: "fail", error: "again" });
    else await job.ack();
    if (came[name].length === 4) break;
  }
  hg.close();
}
const hg = createClient({ url, WebSocket });
const groups = hg.groups("requests", { match: "orders.*", create: { start: "0" } });
const { entries, pending } = await groups.read({ consumer: "me", limit: 3 });
const ids = entries.map(({ stream, id }) => ({ stream, ids: [id] }));
const [extended] = await groups.extend(ids.slice(0, 1), { consumer: "me" });
const [released] = await groups.nack(ids.slice(1, 2), { mode: "silent" });
const [acked] = await groups.ack(ids.slice(2), { consumer: "me" });
came.requests = [pending, ...[extended, released, acked].map(({ results }) => results[0].outcome)];
const { push } = hg.groups("pushed", { match: "orders.*", create: { start: "$" }, weights: { "orders.A": 2 } });
const { secret, match, weights, create } = await push.set({ url: "https://hooks.example/" });
came.push = [secret.slice(0, 6), match, weights, create.start, (await push.pause()).state, await push.retry()];
came.pushes = [];
for await (const each of hg.pushes()) came.pushes.push([each.match, each.stream, each.group]);
await push.delete();
console.log(JSON.stringify(came));
