// A note that several people write at the same time. The address names it.

import { YjsProvider } from "@durable-streams/y-durable-streams";
import * as Y from "yjs";

const area = document.querySelector("textarea");
const state = document.querySelector("[role=status]");
const { url } = await (await fetch("/documents")).json();

// The provider numbers what it writes, and gives up what fails: here that is sent again, with its number.
const { fetch: once } = globalThis;
globalThis.fetch = async (place, options) => {
  for (;;) {
    const response = await once(place, options).catch((error) => ({ status: 503, error }));
    const isWrite = options?.method === "POST" && `${place}`.startsWith(url);
    if (isWrite && response.status >= 500) await new Promise((resolve) => setTimeout(resolve, 1000));
    else if (response.error) throw response.error;
    else return response;
  }
};

const doc = new Y.Doc();
const text = doc.getText("note");
const provider = new YjsProvider({
  doc,
  baseUrl: `${url}/v1/yjs/notes`,
  docId: location.hash.slice(1) || "note",
  liveMode: "long-poll", // by events, the server of Yjs would leave readers waiting when the gateway has been killed
  connect: false,
});
provider.on("status", (status) => {
  area.disabled = status !== "connected"; // the provider passes on nothing before
  if (status !== "connected") state.textContent = "connecting …";
  if (status === "disconnected") setTimeout(() => provider.connect(), 1000);
});
provider.on("synced", (synced) => (state.textContent = synced ? "saved" : "saving …"));
provider.connect();

// What is written here: all between the beginning and the end that stayed the same.
area.addEventListener("input", () => {
  const [before, after] = [text.toString(), area.value];
  let [begin, end] = [0, 0];
  while (begin < after.length && before[begin] === after[begin]) begin++;
  const rest = Math.min(before.length, after.length) - begin;
  while (end < rest && before.at(-1 - end) === after.at(-1 - end)) end++;
  doc.transact(() => {
    text.delete(begin, before.length - end - begin);
    text.insert(begin, after.slice(begin, after.length - end));
  });
});

// What others write. The cursor stays where it is in the text.
text.observe(({ delta, transaction }) => {
  if (transaction.local) return;
  let { selectionStart: cursor } = area;
  let at = 0;
  for (const { retain = 0, insert = "", delete: gone = 0 } of delta) {
    at += retain;
    if (at <= cursor) cursor = Math.max(at, cursor - gone) + insert.length;
    at += insert.length;
  }
  area.value = text.toString();
  area.setSelectionRange(cursor, cursor);
});
