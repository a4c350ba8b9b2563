// A session of the unmodified client with the gateway at the URL of the first argument.
// It prints what each step was answered, as one JSON object.

import { DurableStream, IdempotentProducer, stream } from "@durable-streams/client";
import { cutWay } from "./cut_way.mjs";
import { endConnections, untilWaiting } from "./readers.mjs";

const [gateway, way] = [process.argv[2], await cutWay(process.argv[2])]; // the way of readers
const answers = {};

// Makes a stream of numbers, and a writer of it. Each append is sent twice, as one whose answer was lost.
async function counter(path) {
  const numbers = await DurableStream.create({
    url: `${gateway}/v1/stream/client/${path}`,
    contentType: "application/json",
    ttlSeconds: 60,
  });
  const twice = async (...request) => (await fetch(...request), fetch(...request));
  const producer = new IdempotentProducer(numbers, "counter", { fetch: twice, maxBatchBytes: 64 });
  const append = async (from, to) => {
    for (let n = from; n <= to; n++) producer.append(JSON.stringify({ n: `${n}` }));
    await producer.flush();
  };
  return { numbers, producer, append, url: numbers.url.replace(gateway, way.url) };
}

const sequence = (messages) => messages.map(({ n }) => Number(n));

// Reads live behind an offset until the stream is closed. If a connection is lost, it goes on behind what has come.
function follow(url, live, offset) {
  const reader = { messages: [], heard: () => {} };
  reader.until = async (count) => {
    while (reader.messages.length < count) await new Promise((resolve) => (reader.heard = resolve));
  };
  reader.end = new Promise((resolve, reject) => {
    const connect = async () => {
      const response = await stream({ url, offset, live });
      response.subscribeJson((batch) => {
        offset = batch.offset;
        reader.messages.push(...batch.items);
        reader.heard();
        if (batch.streamClosed) resolve(); // `response.closed` may come before the last batch
      });
      response.closed.catch(() => connect().catch(reject));
    };
    connect().catch(reject);
  });
  return reader;
}

// What is there, as a whole and behind an offset.
const { numbers, url, append } = await counter("numbers");
await append(1, 50);
const { offset, contentType } = await numbers.head();
await append(51, 100);
answers.type = contentType;
answers.all = sequence(await (await stream({ url, live: false })).json());
answers.resumed = sequence(await (await stream({ url, live: false, offset })).json());

// What comes, through a cut and through an end that the gateway makes.
for (const live of ["sse", "long-poll"]) {
  const { numbers, producer, append, url } = await counter(live);
  await append(1, 50);
  const { offset } = await numbers.head();
  const reader = follow(url, live, offset);
  await append(51, 60);
  await reader.until(10);
  await untilWaiting(gateway, 1);
  way.cut();
  await append(61, 70);
  await reader.until(20);
  await untilWaiting(gateway, 1);
  const ended = (await endConnections(gateway)) > 0;
  await append(71, 80);
  await reader.until(30);
  await producer.close(JSON.stringify({ n: "81" }));
  await reader.end;
  answers[live] = { came: sequence(reader.messages), ended };
  answers.closed = (await numbers.head()).streamClosed;
  answers.refused = await numbers.append(JSON.stringify({ n: "82" })).catch((error) => error.status);
}

// A writer whose successor has begun.
const successor = new IdempotentProducer(numbers, "counter", { epoch: 1 });
successor.append(JSON.stringify({ n: "0" }));
await successor.flush();
answers.fenced = await new Promise((resolve) => {
  const onError = (error) => resolve([error.name, error.currentEpoch]);
  new IdempotentProducer(numbers, "counter", { onError }).append(JSON.stringify({ n: "1" }));
});

const text = await DurableStream.create({ url: `${gateway}/v1/stream/client/text`, contentType: "text/plain" });
for (const part of ["Grüße\n", " and\r\n", "more"]) await text.append(part);
answers.text = await (await text.stream({ live: false })).text();
answers.text_live = await (await text.stream({ live: "sse" })).text();
await text.delete();
answers.deleted = (await text.head()).exists === false;

way.end();
console.log(JSON.stringify(answers));
