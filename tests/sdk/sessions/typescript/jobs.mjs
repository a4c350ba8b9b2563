// Works a group whose jobs take as long as it is told: a line of input ends those in hand.
import { createClient } from "@headgate/client";
import WebSocket from "ws";

const [url] = process.argv.slice(2);
const say = (line) => console.log(JSON.stringify(line));
const hg = createClient({ url, WebSocket, onState: (state) => say({ state }) });
const ending = new AbortController();
let finish;
let finished = new Promise((resolve) => (finish = resolve));

const working = hg.group("talk", "readers").work(async (job) => {
  say({ begun: job.id });
  job.signal.addEventListener("abort", () => say({ aborted: job.id }));
  await finished;
  say({ finished: job.id });
}, {
  credit: 4,
  signal: ending.signal,
  onClaimed: (ids, by) => say({ claimed: ids, by }),
  onState: (group) => say({ group }),
});
process.stdin.on("data", () => {
  finish();
  finished = new Promise((resolve) => (finish = resolve));
});
process.stdin.on("end", async () => {
  ending.abort();
  await working;
  hg.close();
});
