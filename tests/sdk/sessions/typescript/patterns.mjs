// Follows all streams that match over both transports; prints the streams of the first three entries of each.
import { createClient } from "@headgate/client";
import WebSocket from "ws";

const [url] = process.argv.slice(2);
const streams = {};
for (const [name, options] of [["socket", { WebSocket }], ["events", { transport: "events" }]]) {
  const hg = createClient({ url, ...options });
  streams[name] = [];
  for await (const { stream, fields } of hg.follow("orders.*", { after: "0" })) {
    if (streams[name].push(`${stream} ${fields.v}`) === 3) break;
  }
  hg.close();
}
console.log(JSON.stringify(streams));
