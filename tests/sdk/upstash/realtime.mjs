// @upstash/realtime, unmodified, with the gateway at the URL of the first argument: a browser's
// request to its handler, events that a server emits, and a request that comes back for the rest.
import { handle, Realtime } from "@upstash/realtime";
import { Redis } from "@upstash/redis";
import { z } from "zod/v4";

const redis = new Redis({ url: process.argv[2], token: "none needed", enableTelemetry: false });
const realtime = new Realtime({ schema: { chat: { said: z.string() } }, redis });
const GET = handle({ realtime });
const told = {};

async function* events(query) {
  const { body } = await GET(new Request(`http://page/api/realtime?${query}`));
  let text = "";
  for await (const part of body.pipeThrough(new TextDecoderStream())) {
    text += part;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2))
      yield JSON.parse(text.slice("data: ".length, end));
  }
}

const page = events("channel=room&last_ack_room=0-0");
told.connected = (await page.next()).value;
await realtime.channel("room").emit("chat.said", "hello");
const first = (await page.next()).value;
told.live = [first.event, first.data, first.channel];
await page.return();
await realtime.channel("room").emit("chat.said", "while away");
const back = events(`channel=room&last_ack_room=${first.id}`);
await back.next();
const missed = (await back.next()).value;
told.missed = [missed.event, missed.data];
told.history = (await realtime.channel("room").history()).map(({ data }) => data);
console.log(JSON.stringify(told));
process.exit(0);
