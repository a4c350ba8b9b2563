// Follows a stream and works a group; one JSON line for all that happens, a line of input at a time.
import { createClient, Problem } from "@headgate/client";
import WebSocket from "ws";

const [url, transport] = process.argv.slice(2);
const say = (line) => console.log(JSON.stringify(line));
/** A way that no upgrade passes. */
class Refused extends WebSocket {
  constructor(url, protocol) {
    super(url.replace("/v1/ws", "/nowhere"), protocol);
  }
}
const classes = { socket: WebSocket, refused: Refused };
const hg = createClient({
  url,
  WebSocket: classes[transport],
  onState: (state, code) => say({ state, code }),
  retryMs: 20_000,
});
const stream = hg.stream("talk");
const ending = new AbortController();
const tried = new Set();

async function tail() {
  for await (const { id } of stream.follow({ after: "0", credit: 2, signal: ending.signal })) say({ tailed: id });
  say({ over: "tail" });
}

async function work() {
  await stream.group("readers").work(async (job) => {
    say({ worked: job.id, deliveries: job.deliveries, ...(job.lastError && { because: job.lastError }) });
    if (job.fields.fails && !tried.has(job.id)) {
      tried.add(job.id);
      throw new Error("in vain");
    }
  }, {
    consumer: "me",
    credit: 4,
    concurrency: 2,
    signal: ending.signal,
    onError: (error, job) => say({ failed: job.id, message: error.message }),
  });
  say({ over: "work" });
}

async function missing() {
  try {
    for await (const _ of stream.group("nobody").consume());
  } catch (error) {
    say({ ended: error.code, isProblem: error instanceof Problem });
  }
}

const running = [tail(), work(), missing()];
process.stdin.setEncoding("utf8").on("data", async (text) => {
  say({ appended: await stream.append({ text: text.trim() }) });
});
process.stdin.on("end", async () => {
  ending.abort();
  await Promise.all(running);
  hg.close();
});
