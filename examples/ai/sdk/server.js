// The program behind the page: it asks a model, and writes the answer into a stream of the gateway.
//
//     headgate serve --allow-origin http://localhost:8002    # in one terminal
//     npm ci && npm run build && npm start                   # in another; open http://localhost:8002
//
// HEADGATE_URL says where the gateway is. The model is a fake one, which takes its time.

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { createFetchWithBackoff, DurableStream, IdempotentProducer } from "@durable-streams/client";
import { convertToModelMessages, generateId, streamText } from "ai";
import { MockLanguageModelV3, simulateReadableStream } from "ai/test";

const GATEWAY = process.env.HEADGATE_URL ?? "http://localhost:8080";
const PORT = Number(process.env.PORT ?? 8002);
const WORD_MS = Number(process.env.WORD_MS ?? 150);
const KEPT_S = 86_400; // an answer that nobody reads goes after a day
const ANSWER =
  "I am no model, only a paragraph that takes its time. Each of my words is on the disk of the gateway before you see " +
  "it. Reload the page: I go on in the middle of the sentence. Open a second tab: it shows the same. Stop the gateway " +
  "and start it again: no word is missing, and none comes twice.";

const chats = new Map(); // a chat has its messages, and the answer that is being written; a database in your program

function chatOf(id) {
  if (!chats.has(id)) chats.set(id, { messages: [] });
  return chats.get(id);
}

async function answer(chat, messages) {
  const stopping = new AbortController();
  const url = `${GATEWAY}/v1/stream/chats/${generateId()}`;
  Object.assign(chat, { messages, url, stopping });
  const result = streamText({
    model: fakeModel(),
    messages: await convertToModelMessages(messages),
    abortSignal: stopping.signal,
  });
  const chunks = result.toUIMessageStream({
    originalMessages: messages,
    generateMessageId: generateId, // by which a tab that resumes replaces what it shows
    onFinish: ({ messages }) => Object.assign(chat, { messages, url: null }),
  });
  const contentType = "application/json";
  const stream = await DurableStream.create({ url, contentType, ttlSeconds: KEPT_S });
  write(stream, chunks).catch((error) => console.error(`an answer has no end: ${error}`));
  return { streamUrl: url };
}

// Appends each chunk once, however often it is sent: the gateway knows its number. (`toDurableStreamResponse` of the
// transport sends without numbers. What is sent again, because the answer to it was lost, would come twice.)
async function write(stream, chunks) {
  const producer = new IdempotentProducer(stream, "model", { fetch: createFetchWithBackoff(fetch), maxInFlight: 1 });
  for await (const chunk of chunks) producer.append(JSON.stringify(chunk));
  await producer.close();
}

function fakeModel() {
  const usage = { inputTokens: {}, outputTokens: {} };
  const words = ANSWER.split(" ").map((word) => ({ type: "text-delta", id: "0", delta: `${word} ` }));
  const begin = [{ type: "stream-start", warnings: [] }, { type: "text-start", id: "0" }];
  const end = [{ type: "text-end", id: "0" }, { type: "finish", finishReason: { unified: "stop" }, usage }];
  const stream = () => simulateReadableStream({ chunks: [...begin, ...words, ...end], chunkDelayInMs: WORD_MS });
  return new MockLanguageModelV3({ doStream: async () => ({ stream: stream() }) });
}

// The transport sends to /chats, and asks at /chats/ID/stream whether there is something to resume.
const routes = [
  ["POST", /^\/chats$/, async (_, body) => answer(chatOf(body.id), body.messages)],
  ["GET", /^\/chats\/([\w-]+)$/, async (id) => chatOf(id).messages],
  ["GET", /^\/chats\/([\w-]+)\/stream$/, async (id) => chatOf(id).url && { streamUrl: chatOf(id).url }],
  ["POST", /^\/chats\/([\w-]+)\/stop$/, async (id) => void chatOf(id).stopping?.abort()],
];
const files = { "/": ["index.html", "text/html"], "/page.js": ["dist/page.js", "text/javascript"] };

createServer(async (request, response) => {
  const { pathname } = new URL(request.url, "http://localhost");
  try {
    for (const [method, path, act] of routes) {
      const match = request.method === method && pathname.match(path);
      if (!match) continue;
      const sent = Buffer.concat(await request.toArray());
      const result = await act(match[1], sent.length ? JSON.parse(sent) : null);
      if (!result) return response.writeHead(204).end();
      return response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(result));
    }
    if (!Object.hasOwn(files, pathname)) return response.writeHead(404).end();
    const [file, type] = files[pathname];
    response.writeHead(200, { "Content-Type": type }).end(await readFile(new URL(file, import.meta.url)));
  } catch (error) {
    console.error(error);
    response.writeHead(500).end();
  }
}).listen(PORT, "127.0.0.1", () => console.log(`Open http://localhost:${PORT}`));
