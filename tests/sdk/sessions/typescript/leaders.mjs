// Follows `orders` and works it off as `billing`, at gateways one of which leads. It prints what it sees and does.
import { createClient } from "@headgate/client";
import WebSocket from "ws";

const [transport, ...url] = process.argv.slice(2);
const hg = createClient({ url, WebSocket, transport: transport === "events" ? transport : undefined, retryMs: 60_000 });
const ending = new AbortController();
process.on("SIGTERM", () => ending.abort());
const billing = hg.group("orders", "billing");
await billing.create({ start: "0", createStream: true });
const working = billing.work((job) => console.log("done", job.id), { concurrency: 4, signal: ending.signal });
for await (const entry of hg.stream("orders").follow({ after: "0" })) {
  console.log("seen", entry.id);
  if (entry.fields.n === "last") break;
}
await working;
console.log("appended", await hg.stream("other").append({ n: "1" }));
hg.close();
