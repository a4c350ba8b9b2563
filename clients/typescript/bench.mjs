// Works a group with an empty handler over one connection, and says how many entries a second that is.
import { createClient } from "@headgate/client";
import WebSocket from "ws";

const [url = "http://localhost:8080", count = 200_000, credit = 2048, concurrency = 256] = process.argv.slice(2);
const hg = createClient({ url, WebSocket });
const stream = hg.stream(`bench-${Date.now()}`);
for (let sent = 0; sent < count; sent += 5000) {
  await stream.appendMany(Array.from({ length: 5000 }, (_, n) => ({ n: sent + n, sku: "42", name: "a name" })));
}
const group = stream.group("workers");
await group.create({ start: "0" });
const ending = new AbortController();
let done = 0;
const begun = performance.now();
await group.work(async () => {
  if ((done += 1) === Number(count)) ending.abort();
}, { credit: Number(credit), concurrency: Number(concurrency), signal: ending.signal });
const seconds = (performance.now() - begun) / 1000;
console.log(`${done} entries in ${seconds.toFixed(2)} s: ${Math.round(done / seconds)} a second`);
console.log(await group.info());
await stream.delete();
hg.close();
