// Follows a table of which entries are trimmed before they are seen, over both transports; prints its last views.
import { createClient } from "@headgate/client";
import WebSocket from "ws";

const [url] = process.argv.slice(2);
const views = {};
for (const [name, options] of [["socket", { WebSocket }], ["events", { transport: "events" }]]) {
  const hg = createClient({ url, ...options });
  const stream = hg.stream(name);
  await stream.create({ keyField: "sku" });
  const table = stream.table();
  for (const key of "abc") await table.put(key, { n: 1 });
  const view = (views[name] = {});
  for await (const { key, fields } of table.changes()) {
    view[key] = fields && fields.n;
    if (Object.keys(view).length === 3) { // the stream is followed from the next step on
      for (const key of "de") await table.put(key, { n: 1 });
      await stream.trim({ maxLength: 1 });
    }
    if (view.e && !view.a && !view.b && !view.c) break;
  }
  hg.close();
}
console.log(JSON.stringify(views));
