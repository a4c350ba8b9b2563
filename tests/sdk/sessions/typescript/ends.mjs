// Opens something, and then comes to its end: `closed`, with the client closed, or `failed`, with an error.
import { createClient } from "@headgate/client";
import WebSocket from "ws";

const [url, opening, end] = process.argv.slice(2);
const socket = opening.startsWith("events") ? { transport: "events" } : { WebSocket };
const hg = createClient({ url, ...socket });
const never = new Promise(() => {});
const begun = () => new Promise((resolve) => hg.group("s", "g").work((job) => (resolve(job), never)).catch(() => {}));
const openings = {
  follow: () => hg.stream("s").follow({ after: "0" }).next(),
  wait: async () => {
    const entries = hg.stream("s").follow({ after: "0" });
    await entries.next();
    entries.return(); // the connection lingers
    void hg.stream("t").follow().next();
  },
  subscribe: () => new Promise((resolve) => hg.stream("s").subscribe({ after: "0", onEntries: resolve })),
  consume: () => hg.group("s", "g").consume().next(),
  work: begun,
  streams: () => hg.streams().next(),
  "events follow": () => hg.stream("s").follow({ after: "0" }).next(),
  "events consume": () => hg.group("s", "g").consume().next(),
};
await openings[opening]();
if (end === "failed") throw new Error("no space");
hg.close();
