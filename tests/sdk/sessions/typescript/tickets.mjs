// A page whose server asks for tickets with its key; one JSON line for all that happens. A line of input is appended.
// `tickets`: they end soon; `refused`: it gets one credential after the other that nobody takes.
import { createClient } from "@headgate/client";
import WebSocket from "ws";

const [url, transport, how, key] = process.argv.slice(2);
const say = (line) => console.log(JSON.stringify(line));
const server = createClient({ url, token: key });
let count = 0;

async function token() {
  say({ token: (count += 1) });
  if (how === "refused") return `hg_nobody${count}_${"a".repeat(52)}`;
  return (await server.ticket({ stream: "talk", do: ["read", "append"], ttlMs: 3000 })).ticket;
}

const page = createClient({
  url,
  token,
  ...(transport === "events" ? { transport } : { WebSocket }),
  onError: ({ code }, where) => say({ error: code, where }),
});
const stream = page.stream("talk");
for (const name of ["one", "other"]) {
  stream.subscribe({
    after: "0",
    onEntries: (entries) => entries.forEach(({ id }) => say({ [name]: id })),
    onConnection: (connection, error) => say({ connection, reason: error?.code }),
  });
}
process.stdin.setEncoding("utf8").on("data", async (text) => {
  say({ appended: await stream.append({ text: text.trim() }) });
});
process.stdin.on("end", () => page.close());
