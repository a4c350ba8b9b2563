// Follows a stream, by a loop and by callbacks, and works a group, until the stream is closed; then says what came.
import { createClient, isProblem } from "@headgate/client";
import WebSocket from "ws";

const [url, transport] = process.argv.slice(2);
const hg = createClient({ url, WebSocket, ...(transport === "events" && { transport }) });
const stream = hg.stream("talk");
const states = [];
const followed = [];
const called = [];
const worked = [];

let onFirst = () => {};
const first = new Promise((resolve) => (onFirst = resolve));
const byCallbacks = new Promise((resolve) => {
  const onState = (state) => state === "closed" && resolve();
  stream.subscribe({ after: "0", onEntries: (entries) => called.push(...entries.map(({ id }) => id)), onState });
});

async function follow() {
  for await (const { id } of stream.follow({ after: "0", onState: (state) => states.push(state) })) {
    followed.push(id);
    onFirst();
  }
}

const work = () => stream.group("readers").work((job) => void worked.push(job.id), { signals: [] });
const running = Promise.all([follow(), work(), byCallbacks]);
await first;
const end = await stream.close({ n: "last" }, { idempotencyKey: "1" });
const again = await stream.close({ n: "last" }, { idempotencyKey: "1" });
await running;
await work(); // nothing is left
const code = await stream.append({ n: "2" }).catch((error) => isProblem(error, "stream_closed") && error.code);
const page = await stream.read({ after: end.ids[0], waitMs: 20_000 });
hg.close();
console.log(JSON.stringify({ end, again, followed, called, worked, states, code, closedAtMs: page.closedAtMs }));
