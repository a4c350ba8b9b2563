// Two servers of Socket.IO that share a stream, over the adapter that the third argument names.
// It prints what their clients and the servers were told, as one JSON object.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { Redis } from "ioredis";
import { Server } from "socket.io";
import { io } from "socket.io-client";

const [, , port, streamName, adapter] = process.argv;
const { createAdapter } = createRequire(import.meta.url)(adapter);
const told = {};

async function server() {
  const redis = new Redis(Number(port));
  const http = createServer();
  const sockets = new Server(http, { adapter: createAdapter(redis, { streamName, channelPrefix: streamName }) });
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  const client = io(`http://127.0.0.1:${http.address().port}`);
  const connected = new Promise((resolve) => sockets.on("connection", resolve));
  await new Promise((resolve) => client.on("connect", resolve));
  return { sockets, client, socket: await connected };
}

const next = (emitter, event) => new Promise((resolve) => emitter.once(event, (...words) => resolve(words)));
const one = await server();
const other = await server();

// A server of 0.2 misses what comes between its first reads, which all begin "from now on".
const heard = [next(one.client, "news"), next(other.client, "news")];
const saying = setInterval(() => one.sockets.emit("news", "hello", Buffer.from([1, 255])), 50);
told.broadcast = (await Promise.all(heard)).map(([text, bytes]) => [text, [...new Uint8Array(bytes)]]);
clearInterval(saying);

await other.socket.join("room");
const inRoom = next(other.client, "room");
one.sockets.to("room").emit("room", 1);
told.room = await inRoom;

const from = next(other.sockets, "sync");
one.sockets.serverSideEmit("sync", "a");
told.server_side = await from;

told.sockets = (await one.sockets.fetchSockets()).length;
one.client.on("ask", (answer) => answer("one"));
other.client.on("ask", (answer) => answer("other"));
told.acknowledged = (await one.sockets.timeout(5000).emitWithAck("ask")).sort();
other.sockets.on("question", (answer) => answer("from a server"));
told.server_answer = await one.sockets.serverSideEmitWithAck("question");

console.log(JSON.stringify(told));
process.exit(0);
