// Works an entry off in steps, with an error, a sleep, a wait and a wait in vain; prints one JSON object of what came of it.
import { append, createClient } from "@headgate/client";
import WebSocket from "ws";

const [url] = process.argv.slice(2);
const hg = createClient({ url, WebSocket });
const group = hg.group("orders", "billing");
const results = { charged: 0, runs: 0, errors: [] };
const ending = new AbortController();

await group.create({ start: "0", createStream: true });
await hg.stream("orders").append({ n: 7 });
await group.work(async (job) => {
  results.runs += 1;
  const receipt = await job.step("charge", async () => ({ number: (results.charged += 1) }));
  if (results.runs === 1) throw new Error("it breaks");
  await job.sleep("20ms");
  await job.step("mail", () => undefined);
  if (results.runs === 3) setTimeout(() => group.signal("approved:7", { by: "ana" }), 20);
  const approval = await job.waitFor("approved:7", "7d");
  results.late = await job.waitFor("never", 1).catch((error) => {
    if (error.name === "Paused") throw error;
    return error.name;
  });
  await job.commit([append("bills", { n: job.fields.n, receipt: receipt.number, by: approval.by })]);
  ending.abort();
}, { signal: ending.signal, onError: (error) => results.errors.push(error.message) });

results.bills = (await hg.stream("bills").read()).entries.map(({ fields }) => fields);
results.left = [];
for await (const { key } of hg.stream("orders.billing.steps").table().rows()) results.left.push(key);
results.pending = (await group.info()).pending;
hg.close();
console.log(JSON.stringify(results));
