// Asks for a token in time that is made here; prints one JSON line. For some seconds its function throws, or never answers.
import { mock } from "node:test";
import { createClient } from "@headgate/client";

mock.timers.enable({ apis: ["setTimeout", "Date"] });
const [how, awayS] = process.argv.slice(2);
const told = [];
const calls = [];
const begun = Date.now();

async function token() {
  calls.push((Date.now() - begun) / 1000);
  if (Date.now() - begun >= awayS * 1000) return "token";
  return how === "silent" ? new Promise(() => {}) : Promise.reject(new Error("no session"));
}

const sent = [];
const fetch = async (_url, { headers }) => {
  sent.push(headers.get("authorization"));
  return new Response("{}");
};
const hg = createClient({ url: "http://127.0.0.1:1", token, fetch, onError: ({ message }, where) => told.push([where, message]) });
const asked = Array.from({ length: 20 }, (_, at) => hg.group("orders", "readers").ack([`${at}-0`]));
const all = Promise.allSettled(asked);
let isOver = false;
all.finally(() => (isOver = true));
while (!isOver) {
  mock.timers.tick(50);
  await new Promise(setImmediate);
}
const outcomes = (await all).map(({ reason }) => reason?.message ?? "done");
console.log(JSON.stringify({ calls, told, sent: [...new Set(sent)], outcomes: [...new Set(outcomes)] }));
process.exit(); // timers of Node itself were made here, too
