// Follows a stream and a table and works a group; one JSON line for each change of their connections.
import { createClient } from "@headgate/client";
import WebSocket from "ws";

const [url, transport] = process.argv.slice(2);
const say = (line) => console.log(JSON.stringify(line));
const hg = createClient({ url, ...(transport === "events" ? { transport } : { WebSocket }) });
const ending = new AbortController();
const options = (of) => ({
  signal: ending.signal,
  onConnection: (connection, error) => say({ [of]: connection, error: error && [error.constructor.name, error.message] }),
});
hg.stream("talk").subscribe({ ...options("stream"), onEntries: () => {} });
const rows = async () => {
  for await (const { key } of hg.stream("stock").table().changes(options("table"))) say({ key });
};
const running = [rows(), hg.group("talk", "readers").work((job) => say({ worked: job.id }), options("group"))];
process.stdin.resume().on("end", async () => {
  ending.abort();
  await Promise.all(running);
  hg.close();
});
