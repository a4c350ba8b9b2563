// Follows a table of which entries are trimmed before they are seen; prints what it shows in the end.
import { createClient } from "@headgate/client";
import WebSocket from "ws";

const [url] = process.argv.slice(2);
const hg = createClient({ url, WebSocket });
const stream = hg.stream("stock");
await stream.create({ keyField: "sku" });
const table = stream.table();
for (const key of "abc") await table.put(key, { n: 1 });
const view = {};
for await (const { key, fields } of table.changes({ credit: 2 })) {
  view[key] = fields && fields.n;
  if (Object.keys(view).length === 1) { // no more than two rows have come
    for (const key of "de") await table.put(key, { n: 1 });
    await stream.trim({ maxLength: 1 });
  }
  if (view.e && !view.a && !view.b) break;
}
hg.close();
console.log(JSON.stringify(view));
