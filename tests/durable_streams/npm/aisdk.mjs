// Chats of `useChat` over the unmodified transport for Vercel's AI SDK, with the gateway at the URL of the first
// argument. It says "kill" and "start" when that is to happen to the gateway, each as one JSON object in a line, and
// reads a line when it has. Last it prints what the tabs of each chat have shown.

import { createInterface } from "node:readline/promises";
import { useChat } from "@ai-sdk/react";
import { createDurableChatTransport, toDurableStreamResponse } from "@durable-streams/aisdk-transport";
import { convertToModelMessages, streamText } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { createElement, useEffect } from "react";
import { create } from "react-test-renderer";
import { untilWaiting } from "./readers.mjs";

// The client rejects a promise of its own when a connection is lost. A browser goes on, Node would end.
process.on("unhandledRejection", () => {});

const gateway = process.argv[2];
const control = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
async function operator(act) {
  console.log(JSON.stringify({ act }));
  await control.next();
}

const WORDS = ["No ", "word ", "is ", "lost, ", "and ", "none ", "comes ", "twice."];
const some = (count) => WORDS.slice(0, count).join("");
const answers = {};

// The application's server: a chat is there, with the id of the answer that is being written.
const chats = new Map();
const json = { "Content-Type": "application/json" };
async function server(url, { body }) {
  const [id, act] = new URL(url).pathname.split("/").slice(1);
  const chat = chats.get(id);
  if (act === "ask") return answer(chat, JSON.parse(body).messages);
  if (act === "stop") return chat.stopping.abort(), new Response(null, { status: 204 });
  if (!chat.writing) return new Response(null, { status: 204 });
  return new Response(JSON.stringify({ streamUrl: chat.writing }), { headers: json });
}
async function answer(chat, messages) {
  Object.assign(chat, { messages, stopping: new AbortController(), writing: `${gateway}/v1/stream/ai/${chat.id}` });
  const abortSignal = chat.stopping.signal;
  const result = streamText({ model: chat.model, messages: await convertToModelMessages(messages), abortSignal });
  const source = result.toUIMessageStream({
    originalMessages: messages,
    generateMessageId: () => `answer to ${chat.id}`,
    onFinish: ({ messages }) => Object.assign(chat, { messages, writing: null }),
  });
  return toDurableStreamResponse({ source, stream: { writeUrl: chat.writing } });
}

// A chat whose model waits for a permit before each word.
function newChat(id) {
  const permits = new TransformStream(undefined, { highWaterMark: WORDS.length });
  const permit = permits.writable.getWriter();
  const allowed = permits.readable.getReader();
  async function* words(abortSignal) {
    const stopped = new Promise((_, reject) => abortSignal.addEventListener("abort", () => reject(abortSignal.reason)));
    yield { type: "stream-start", warnings: [] };
    yield { type: "text-start", id: "0" };
    for (const delta of WORDS) {
      await Promise.race([allowed.read(), stopped]);
      yield { type: "text-delta", id: "0", delta };
    }
    yield { type: "text-end", id: "0" };
    yield { type: "finish", finishReason: { unified: "stop", raw: "stop" }, usage: { inputTokens: {}, outputTokens: {} } };
  }
  const model = new MockLanguageModelV3({ doStream: async ({ abortSignal }) => ({ stream: ReadableStream.from(words(abortSignal)) }) });
  const chat = { id, model, messages: [], permit: (count) => WORDS.slice(0, count).forEach(() => permit.write()) };
  chats.set(id, chat);
  return chat;
}

// A tab that shows a chat. It resumes when it opens, and when its connection was lost.
function open({ id, messages }) {
  const transport = createDurableChatTransport({
    api: `http://app/${id}/ask`,
    reconnectApi: `http://app/${id}/writing`,
    fetchClient: server,
  });
  const tab = { heard: () => {} };
  function Page() {
    Object.assign(tab, useChat({ id, messages, transport, resume: true }));
    useEffect(() => void (tab.status === "error" && tab.resumeStream()), [tab.status]);
    useEffect(() => tab.heard());
    return null;
  }
  const root = create(createElement(Page));
  tab.shown = () => tab.messages?.map(({ role, parts }) => [role, parts.map(({ text }) => text ?? "").join("")]);
  tab.text = () => tab.shown()?.findLast(([role]) => role === "assistant")?.[1] ?? "";
  tab.until = async (holds) => {
    while (!holds()) await new Promise((resolve) => (tab.heard = resolve));
  };
  tab.untilText = (text) => tab.until(() => tab.text() === text);
  tab.untilReady = () => tab.until(() => tab.status === "ready");
  tab.close = async () => (await tab.stop(), root.unmount());
  return tab;
}
async function asked(id) {
  const chat = newChat(id);
  const tab = open(chat);
  await tab.untilReady();
  tab.sendMessage({ text: "Is it there?" });
  chat.permit(3);
  await tab.untilText(some(3));
  return { chat, tab };
}

// A tab that is opened anew shows the beginning at once, and goes on; so it does when the answer is complete.
{
  const { chat, tab } = await asked("reload");
  await tab.close();
  const reloaded = open(chat);
  await reloaded.untilText(some(3));
  chat.permit(5);
  await reloaded.untilText(some(8));
  await reloaded.untilReady();
  const later = open(chat);
  await later.untilReady();
  answers.reload = [reloaded.shown(), later.shown()];
}

// The gateway is killed twice in the middle of an answer. The model writes on, and both tabs resume.
{
  const { chat, tab } = await asked("kill");
  const second = open(chat);
  await second.untilText(some(3));
  for (const count of [5, 7]) {
    await untilWaiting(gateway, 2);
    await operator("kill");
    chat.permit(2);
    for (const each of [tab, second]) await each.until(() => each.status !== "streaming");
    await operator("start");
    for (const each of [tab, second]) await each.untilText(some(count));
  }
  chat.permit(1);
  for (const each of [tab, second]) await each.untilText(some(8));
  for (const each of [tab, second]) await each.untilReady();
  answers.kill = [tab.shown(), second.shown()];
}

// `stop` ends what a tab reads, also where it has resumed, and the model writes on. The tab can resume again; of two
// that resume at once, one shows. (The transport ends the connection of a tab that has resumed with the next word.)
{
  const { chat, tab } = await asked("stop");
  const resumed = open(chat);
  await resumed.untilText(some(3));
  await untilWaiting(gateway, 2);
  await tab.stop();
  await untilWaiting(gateway, 1);
  chat.permit(2);
  await resumed.untilText(some(5));
  await resumed.stop();
  chat.permit(1);
  await untilWaiting(gateway, 0);
  answers.stopped = [tab, resumed].map(({ status, text }) => [status, text()]);
  for (const each of [tab, resumed]) await Promise.race([each.resumeStream(), each.resumeStream()]);
  for (const each of [tab, resumed]) await each.untilText(some(6));
  chat.permit(2);
  for (const each of [tab, resumed]) await each.untilText(some(8));
  for (const each of [tab, resumed]) await each.untilReady();
  answers.stop = [tab.shown(), resumed.shown()];
}

// The application's own "stop" ends the answer for all tabs, and nothing is resumed any more.
{
  const { chat, tab } = await asked("stop_all");
  const second = open(chat);
  await second.untilText(some(3));
  await server(`http://app/${chat.id}/stop`, {});
  for (const each of [tab, second]) await each.untilReady();
  const later = open(chat);
  await later.untilReady();
  answers.stop_all = [tab.shown(), second.shown(), later.shown()];
}

console.log(JSON.stringify({ answers }));
process.exit();
