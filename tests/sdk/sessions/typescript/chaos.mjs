// Works the group `chaos/workers`: some jobs fail, some always do. It prints the id of each that was done.
import { createClient } from "@headgate/client";
import WebSocket from "ws";

const [url] = process.argv.slice(2);
const hg = createClient({ url, WebSocket, retryMs: 120_000 });
const ending = new AbortController();
process.on("SIGTERM", () => ending.abort());
await hg.group("chaos", "workers").work(
  async (job) => {
    if (job.fields.poison) throw new Error("poison");
    if (Math.random() < 0.01) throw new Error("bad luck");
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 4));
    console.log(job.id);
  },
  { concurrency: 16, onError: () => {}, signal: ending.signal },
);
hg.close();
