// The reference server of the protocol, as the bench takes turns with it. PORT, DATA_DIR.

import { DurableStreamTestServer } from "@durable-streams/server";

const server = new DurableStreamTestServer({
  port: Number(process.env.PORT),
  dataDir: process.env.DATA_DIR,
});
console.log(await server.start());
