// Takes a job, and commits it with its result when it is told to by a line of input.
import { append, createClient } from "@headgate/client";
import WebSocket from "ws";

const [url] = process.argv.slice(2);
const say = (line) => console.log(JSON.stringify(line));
const hg = createClient({ url, WebSocket });
const told = new Promise((resolve) => process.stdin.once("data", resolve));
const ending = new AbortController();
process.stdin.on("end", () => ending.abort());

await hg.group("talk", "readers").work(async (job) => {
  say({ begun: job.id });
  await told;
  const [[result]] = await job.commit([append("results", { of: job.id })]);
  say({ result });
}, { signal: ending.signal, onState: (group) => say({ group }) });
hg.close();
