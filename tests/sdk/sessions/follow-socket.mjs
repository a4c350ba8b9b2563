// Follows a stream and works a group with the example client; one JSON line for all that happens.
import { HeadgateClient } from "./headgate-client.js";

const say = (line) => console.log(JSON.stringify(line));
const client = new HeadgateClient(process.argv[2], {
  token: process.env.HEADGATE_TOKEN,
  onState: (state, code) => say({ state, code }),
});
client.subscribe("tail", { stream: "talk", after: "0", credit: 2 }, {
  entries: (entries) => entries.forEach(({ id }) => say({ tailed: id })),
});
client.subscribe("work", { stream: "talk", group: "readers", consumer: "me", credit: 2 }, {
  entries: async (entries) => {
    const results = await client.ack("work", entries.map(({ id }) => id));
    for (const { id, outcome } of results) say({ acked: id, outcome });
  },
});
client.subscribe("missing", { stream: "talk", group: "nobody" }, {
  entries: () => {},
  ended: (code) => say({ ended: code }),
});
process.stdin.on("data", async (text) => {
  say({ appended: await client.append("talk", [{ fields: { text: String(text).trim() } }]) });
});
process.stdin.on("end", () => client.close());
