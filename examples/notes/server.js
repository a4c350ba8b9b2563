// The program behind the page: the server of Yjs, over streams of the gateway. Pages ask it, and not the gateway, but it
// passes on whose pages they are.
//
//     headgate serve --allow-origin http://localhost:8003    # in one terminal
//     npm ci && npm run build && npm start                   # in another; open http://localhost:8003
//
// HEADGATE_URL says where the gateway is. If that asks for a key, HEADGATE_TOKEN is one which may read, append, create
// and manage `yjs:*`. The server of Yjs asks nobody who they are: your program does that in front of it.

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { YjsServer } from "@durable-streams/y-durable-streams/server";

const { HEADGATE_URL, HEADGATE_TOKEN, PORT = "8003" } = process.env;
const documents = new YjsServer({
  dsServerUrl: HEADGATE_URL ?? "http://localhost:8080",
  dsServerHeaders: HEADGATE_TOKEN ? { Authorization: `Bearer ${HEADGATE_TOKEN}` } : {},
});
await documents.start();

const files = { "/": ["index.html", "text/html"], "/page.js": ["dist/page.js", "text/javascript"] };

createServer(async ({ url }, response) => {
  if (url === "/documents") {
    const place = JSON.stringify({ url: documents.url });
    return response.writeHead(200, { "Content-Type": "application/json" }).end(place);
  }
  if (!Object.hasOwn(files, url)) return response.writeHead(404).end();
  const [file, type] = files[url];
  response.writeHead(200, { "Content-Type": type }).end(await readFile(new URL(file, import.meta.url)));
}).listen(PORT, "127.0.0.1", () => console.log(`Open http://localhost:${PORT}`));
