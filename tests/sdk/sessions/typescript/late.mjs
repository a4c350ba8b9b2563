// Asks a server that never answers, and waits until the client has given up and closed the connection.
import { createServer } from "node:http";
import { mock } from "node:test";
import { createClient } from "@headgate/client";

mock.timers.enable({ apis: ["setTimeout"] });
const server = createServer();
const asked = new Promise((resolve) => server.once("request", resolve));
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

const hg = createClient({ url: `http://127.0.0.1:${server.address().port}`, retryMs: 0 });
const answer = hg.stream("orders").append({ sku: "42" }).catch((error) => error.constructor.name);
const { socket } = await asked;
const closed = new Promise((resolve) => socket.once("close", resolve));
mock.timers.tick(30_000);
console.log(await answer);
await closed;
console.log("closed");
process.exit(); // timers of Node itself were mocked, too
