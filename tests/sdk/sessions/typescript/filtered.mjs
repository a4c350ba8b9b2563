// Follows a stream with a filter over both transports; prints the ids of the first three entries of each.
import { createClient } from "@headgate/client";
import WebSocket from "ws";

const [url] = process.argv.slice(2);
const ids = {};
for (const [name, options] of [["socket", { WebSocket }], ["events", { transport: "events" }]]) {
  const hg = createClient({ url, ...options });
  ids[name] = [];
  for await (const { id } of hg.stream("orders").follow({ after: "0", filter: { exact: { the_kind: "sale" } } })) {
    if (ids[name].push(id) === 3) break;
  }
  hg.close();
}
console.log(JSON.stringify(ids));
