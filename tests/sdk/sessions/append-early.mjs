// Appends before there is a connection, and when it is told to; one JSON line for all that happens.
import { HeadgateClient } from "./headgate-client.js";

const say = (line) => console.log(JSON.stringify(line));
const client = new HeadgateClient(process.argv[2], {
  token: process.env.HEADGATE_TOKEN,
  onState: (state, code) => say({ state, code }),
});
const append = (text) =>
  client.append("talk", [{ fields: { text } }])
    .then(([id]) => say({ appended: id }), (error) => say({ refused: error.message }));

append("1");
append("2");
process.stdin.on("data", (text) => append(String(text).trim()));
process.stdin.on("end", async () => {
  client.close();
  await append("never");
});
