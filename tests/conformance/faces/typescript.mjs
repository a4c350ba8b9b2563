// Calls methods of `@headgate/client`: a line of JSON asks, and one answers under the same number.
import { createInterface } from "node:readline";
import { createClient, isProblem } from "@headgate/client";

const clients = new Map();
const clientOf = (url) => clients.get(url) ?? clients.set(url, createClient({ url, retryMs: 0 })).get(url);

async function answer({ url, stream, group, method, args }) {
  const target = clientOf(url).stream(stream);
  return (group ? target.group(group) : target)[method](...args);
}

for await (const line of createInterface({ input: process.stdin })) {
  const { number, ...call } = JSON.parse(line);
  answer(call).then(
    (value) => console.log(JSON.stringify({ number, value: value ?? null })),
    (error) => console.log(JSON.stringify({ number, problem: isProblem(error) ? error.code : String(error) })),
  );
}
