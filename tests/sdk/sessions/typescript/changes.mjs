// Follows a table over one transport and says each change in a line of JSON. A line of input ends it.
import { createClient } from "@headgate/client";
import WebSocket from "ws";

const [url, transport] = process.argv.slice(2);
const say = (line) => console.log(JSON.stringify(line));
const onState = (connection) => say({ connection });
const hg = createClient({ url, WebSocket, onState, ...(transport === "events" && { transport }) });
const ending = new AbortController();
process.stdin.on("data", () => {}).on("end", () => ending.abort());
const stock = hg.stream("stock").table();
for await (const { key, id, fields } of stock.changes({ signal: ending.signal, onState: (state) => say({ state }) })) {
  say({ key, id, n: fields && (fields.n ?? "") });
}
hg.close();
