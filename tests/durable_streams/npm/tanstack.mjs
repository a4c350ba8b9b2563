// A chat over the unmodified transport for TanStack AI, with the gateway at the URL of the first argument.
// It prints what each tab was shown, as one JSON object.

import {
  durableStreamConnection,
  ensureDurableChatSessionStream,
  materializeSnapshotFromDurableStream,
  toDurableChatSessionResponse,
} from "@durable-streams/tanstack-ai-transport";
import { cutWay } from "./cut_way.mjs";
import { endConnections, untilWaiting } from "./readers.mjs";

const [gateway, way] = [process.argv[2], await cutWay(process.argv[2])]; // the way of readers
const [writeUrl, readUrl] = [gateway, way.url].map((place) => `${place}/v1/stream/chats/42`);
const answers = {};

// A model that waits for a permit before each word.
const WORDS = ["No ", "word ", "is ", "lost, ", "and ", "none ", "comes ", "twice."];
const permits = new TransformStream(undefined, { highWaterMark: WORDS.length });
const permit = permits.writable.getWriter();
const permitWords = (count) => Array.from({ length: count }, () => permit.write("next"));
async function* model() {
  const allowed = permits.readable.getReader();
  yield { type: "TEXT_MESSAGE_START", messageId: "a", role: "assistant" };
  for (const delta of WORDS) {
    await allowed.read();
    yield { type: "TEXT_MESSAGE_CONTENT", messageId: "a", delta };
  }
  yield { type: "TEXT_MESSAGE_END", messageId: "a" };
}

// The application's server, which a frontend asks.
const server = async (_url, { body }) =>
  toDurableChatSessionResponse({ stream: { writeUrl }, newMessages: JSON.parse(body).messages, responseStream: model() });

// A tab. It subscribes again for as long as the chat lasts; the transport keeps the offset.
function tab(options) {
  const connection = durableStreamConnection({ sendUrl: `${gateway}/ask`, readUrl, fetchClient: server, ...options });
  const shown = { connection, snapshot: null, text: "", heard: () => {} };
  shown.until = async (isThere) => {
    while (!isThere(shown)) await new Promise((resolve) => (shown.heard = resolve));
  };
  const leaving = new AbortController();
  shown.leave = () => leaving.abort();
  (async () => {
    while (!leaving.signal.aborted) {
      try {
        for await (const chunk of connection.subscribe(leaving.signal)) {
          if (chunk.type === "MESSAGES_SNAPSHOT") shown.snapshot = textsOf(chunk.messages);
          else if (chunk.type === "TEXT_MESSAGE_CONTENT" && chunk.messageId === "a") shown.text += chunk.delta;
          shown.heard();
        }
      } catch {} // it was cut off
    }
  })();
  return shown;
}
const textsOf = (messages) => messages.map(({ role, parts }) => [role, parts.map(({ content }) => content).join("")]);

await ensureDurableChatSessionStream({ writeUrl });
const first = tab();
await first.until(({ snapshot }) => snapshot);
answers.empty = first.snapshot;
await first.connection.send([{ id: "q", role: "user", parts: [{ type: "text", content: "Is it there?" }] }]);
permitWords(3);
await first.until(({ text }) => text === WORDS.slice(0, 3).join(""));

// A page that is loaded now has the beginning at once, and goes on behind it.
const { messages, offset } = await materializeSnapshotFromDurableStream({ readUrl });
answers.reloaded = textsOf(messages);
const reloaded = tab({ initialOffset: offset });

await untilWaiting(gateway, 2);
way.cut();
permitWords(2);
for (const each of [first, reloaded]) await each.until(({ text }) => text.endsWith("and "));
await untilWaiting(gateway, 2);
answers.ended = (await endConnections(gateway)) > 0;
permitWords(3);
for (const each of [first, reloaded]) await each.until(({ text }) => text.endsWith("twice."));
answers.first = first.text;
answers.behind = reloaded.text;

const later = tab();
await later.until(({ snapshot }) => snapshot);
answers.later = later.snapshot;
for (const each of [first, reloaded, later]) each.leave();
way.end();
console.log(JSON.stringify(answers));
