// Commits steps, and jobs with their results, over both transports; prints one JSON object of what came of it.
import {
  ack, append, cancel, createClient, deleteRow, isProblem, nack, NotYours, putRow, RowChanged, schedule,
} from "@headgate/client";
import WebSocket from "ws";

const [url] = process.argv.slice(2);
const hg = createClient({ url, WebSocket });
const group = hg.group("orders", "billing");
const results = {};

await hg.stream("stock").create({ keyField: "sku" });
const old = await hg.stream("stock").table().put("44", { count: 1 });
await group.create({ start: "0", createStream: true });
await hg.stream("orders").appendMany([{ n: 1 }, { n: 2 }]);
const { entries: [first, second] } = await group.read({ consumer: "me" });
const ids = await hg.commit([
  append("out", [{ n: 1 }, { blob: Uint8Array.from([255]) }], { delayMs: 60_000 }),
  putRow("stock", "42", { itemCount: 3 }, { ifAbsent: true }),
  deleteRow("stock", "44", { ifMatch: old }),
  ack("orders", "billing", [first.id], { deliveries: [1] }),
  nack("orders", "billing", [second.id], { mode: "silent", error: "busy" }),
  schedule("later", { stream: "out", fields: { n: 3 }, atMs: 2 ** 45 }),
], { consumer: "me" });
results.made = ids.map((made) => made.length);
const out = (await hg.stream("out").read()).entries;
results.out = out.map(({ fields, base64 }) => [fields, base64]);
results.delayed = out.every(({ deliverAtMs }) => deliverAtMs > Date.now());
results.row = (await hg.stream("stock").table().get("42")).fields;
results.due = (await hg.schedule("later").info()).nextDueMs;
results.pending = (await group.pending()).map(({ id, lastError }) => [id === second.id, lastError]);

const once = [append("log", { n: 1 }, { lastId: "0-0" }), cancel("later")];
const options = { idempotencyKey: "once" };
results.repeated = (await hg.commit(once, options)).join() === (await hg.commit(once, options)).join();
results.refused = await hg.commit([append("log", { n: 2 }), putRow("stock", "42", { n: 1 }, { ifMatch: old })]).catch(
  (error) => [error instanceof RowChanged, isProblem(error, "row_changed"), error.details.step],
);
results.logged = (await hg.stream("log").info()).length;

await hg.stream("jobs").appendMany(Array.from({ length: 6 }, (_, n) => ({ n })));
for (const [name, transport] of [["socket", { WebSocket }], ["events", { transport: "events" }]]) {
  const client = createClient({ url, ...transport });
  const jobs = client.group("jobs", name);
  await jobs.create({ start: "0" });
  const came = [];
  // Each job needs the credit of the one before it.
  for await (const job of jobs.consume({ consumer: "me", credit: 1 })) {
    if (came.length === 2) await jobs.claim({ consumer: "rival", ids: [job.id], minIdleMs: 0 });
    came.push(await job.commit([append(name, job.fields)]).then(
      ([[id]]) => [id.length > 0, job.isSettled, job.isLost],
      (error) => [error instanceof NotYours, error.held?.[0].consumer, job.isSettled, job.isLost],
    ));
    if (came.length === 6) break;
  }
  results[name] = {
    came,
    done: (await client.stream(name).read()).entries.map(({ fields }) => fields.n),
    pending: (await jobs.pending()).map(({ consumer }) => consumer),
  };
  client.close();
}
hg.close();
console.log(JSON.stringify(results));
