// Two documents of Yjs that are edited at random over the unmodified provider and server of the protocol's authors,
// with the gateway at the URL of the first argument. The others are a seed, how many edits there are, and how often the
// gateway is killed meanwhile: it says "kill" and "start", each as one JSON object in a line, and reads a line when that
// has happened. Last, when both documents are equal, it says whether one is that is opened then.

import { createInterface } from "node:readline/promises";
import { YjsProvider } from "@durable-streams/y-durable-streams";
import { YjsServer } from "@durable-streams/y-durable-streams/server";
import * as Y from "yjs";

const [gateway, ...numbers] = process.argv.slice(2);
const [seed, edits, kills] = numbers.map(Number);
const control = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
async function operator(act) {
  say(JSON.stringify({ act }));
  await control.next();
}

// The server says when it has written a document down as a whole, for those that open it later.
const say = console.log;
let compacted;
console.log = (text) => (text.startsWith("[Compactor]") ? compacted?.() : say(text));
const THRESHOLD = 2 ** 14;
const server = new YjsServer({ dsServerUrl: gateway, compactionThreshold: THRESHOLD });
await server.start();

// The provider numbers what it writes, and gives up what fails. Here it sends that again, with its number.
const { fetch } = globalThis;
globalThis.fetch = async (url, options) => {
  for (;;) {
    const response = await fetch(url, options).catch((error) => ({ status: 503, error }));
    const isWrite = options?.method === "POST" && url.startsWith(server.url);
    if (isWrite && response.status >= 500) await new Promise((resolve) => setTimeout(resolve, 100));
    else if (response.error) throw response.error;
    else return response;
  }
};

async function open() {
  const doc = new Y.Doc();
  // With events its server leaves a reader waiting for ever when the gateway ends in the middle of them.
  const place = { baseUrl: `${server.url}/v1/yjs/notes`, docId: "42", liveMode: "long-poll" };
  const provider = new YjsProvider({ doc, ...place, connect: false });
  await new Promise((resolve, reject) => {
    provider.once("synced", resolve);
    provider.once("error", reject);
    provider.connect();
  });
  return { doc, provider };
}
const shown = ({ doc }) => JSON.stringify([doc.getText("text").toDelta(), doc.getArray("list"), doc.getMap("map")]);

let state = seed;
function random(below) {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
}
function edit({ doc }, number) {
  const [text, list, map] = [doc.getText("text"), doc.getArray("list"), doc.getMap("map")];
  const acts = [
    () => text.insert(random(text.length + 1), `${number} `),
    () => text.length && text.delete(random(text.length), 1),
    () => text.length && text.format(random(text.length), 1, { bold: random(2) === 1 }),
    () => list.insert(random(list.length + 1), [number]),
    () => list.length && list.delete(random(list.length), 1),
    () => map.set(`${random(20)}`, number),
    () => map.delete(`${random(20)}`),
  ];
  acts[random(acts.length)]();
}

const tabs = [await open(), await open()];
const [first, second] = tabs;
const flushed = () => Promise.all(tabs.map(({ provider }) => provider.flush()));
const period = Math.floor(edits / kills);
for (let number = 0; number < edits; number++) {
  if (number % period === Math.floor(period / 3)) await operator("kill");
  if (number % period === Math.floor(period / 2)) await Promise.all([operator("start"), flushed()]);
  edit(tabs[random(2)], number);
  if (random(10) === 0) await new Promise((resolve) => setImmediate(resolve));
}
let heard = () => {};
for (const { doc } of tabs) doc.on("update", () => heard());
await flushed();
while (shown(first) !== shown(second)) await new Promise((resolve) => (heard = resolve));

first.doc.getText("text").insert(0, "x".repeat(THRESHOLD));
await Promise.all([flushed(), new Promise((resolve) => (compacted = resolve))]);
const later = await open();
say(JSON.stringify({ answers: { isEqual: shown(later) === shown(first) } }));
process.exit();
