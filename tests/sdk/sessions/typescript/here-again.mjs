// Works off an entry that comes again before the answer of the commit that gave it back; prints what came of it.
import { append, createClient } from "@headgate/client";
import WebSocket from "ws";

const [url] = process.argv.slice(2);
const begun = [];
let again;
const isHereAgain = new Promise((resolve) => (again = resolve));
let isHeld = false;
const hold = async (place, init) => {
  const answer = await fetch(place, init);
  if (!isHeld && answer.ok && String(init?.body).includes('"nack"')) {
    isHeld = true;
    await isHereAgain;
  }
  return answer;
};
const hg = createClient({ url, WebSocket, fetch: hold });
const group = hg.group("orders", "billing");
const ending = new AbortController();
await group.create({ start: "0", createStream: true });
const id = await hg.stream("orders").append({ n: 1 });
await group.work(async (job) => {
  if (begun.push(job.id) === 2) again();
  await job.sleep(1);
  await job.commit([append("bills", { n: 1 })]);
  ending.abort();
}, { concurrency: 2, signal: ending.signal });
console.log(JSON.stringify({ begun: begun.map((each) => each === id), pending: (await group.info()).pending }));
hg.close();
