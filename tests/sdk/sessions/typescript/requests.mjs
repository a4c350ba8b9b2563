// Asks for everything once, by requests; prints one JSON object of what was answered.
import { bytesOf, createClient, Disconnected, isProblem, Problem } from "@headgate/client";

const [url, receiver] = process.argv.slice(2);
const hg = createClient({ url, retryMs: 0 });
const stream = hg.stream("a/b ü".replace("/", "-"));
const group = stream.group("g");
const refusal = (asking) =>
  asking.then(() => null, (error) => ({
    is: error.constructor.name, code: error.code, status: error.status,
    isProblem: [isProblem(error), isProblem(error, "forbidden", "stream_not_found"), isProblem(error, "forbidden")],
  }));
const bytes = Uint8Array.from([0, 255, 7]);

const created = await stream.create({ maxLength: 100 });
await group.create({ start: "0", policy: { claimIdleMs: 60_000, maxDeliveries: 3, deadLetterStream: "dead", filters: [{ not: { present: "orderId" } }] } });
const id = await stream.append({ sku: "42", count: 7, blob: bytes, snake_case: "stays" });
const ids = await stream.appendMany([{ n: 1 }, { n: 2 }, { n: 3 }]);
const times = hg.stream("times");
await times.appendMany([{ n: 1 }], { delayMs: 60_000, expiresAtMs: 2 ** 50 });
const [timed] = (await times.read()).entries;
await times.delete();
const again = { idempotencyKey: "once" };
const once = [await stream.append({ n: 4 }, again), await stream.append({ n: 4 }, again)];
const page = await stream.read({ after: "0", limit: 1 });
const [entry] = page.entries;
const read = await group.read({ consumer: "me", limit: 4 });
const results = {
  created: created.config.maxLength,
  ids: [id, ...ids, once[0]],
  isOnce: once[0] === once[1],
  entry,
  times: [timed.expiresAtMs, timed.deliverAtMs > Date.now()],
  bytes: [...bytesOf(entry, "blob")].join() === bytes.join() && new TextDecoder().decode(bytesOf(entry, "sku")),
  nextAfter: page.nextAfter,
  filtered: (await stream.read({ after: "0", filter: { exact: { snake_case: "stays" } }, columns: ["sku"] })).entries,
  newest: (await stream.read({ order: "desc", limit: 1 })).entries[0].id,
  read: read.entries.map(({ id, deliveries }) => ({ id, deliveries })),
  acked: await group.ack([id], { consumer: "me" }),
  nacked: await group.nack([ids[0]], { consumer: "me", mode: "silent", error: "x".repeat(2000) }),
  errors: (await group.pending()).map(({ lastError }) => lastError ?? null),
  extended: await group.extend([ids[1]], { consumer: "me" }),
  claimed: (await group.claim({ consumer: "you", ids: [ids[1]], minIdleMs: 0 })).ids,
  fenced: await group.ack([ids[1]], { consumer: "me" }),
  autoclaimed: (await group.autoclaim({ consumer: "you", minIdleMs: 0, justId: true })).ids,
  pending: (await group.pending({ consumer: "you" })).map(({ id }) => id),
  summary: (await group.pendingSummary()).count,
  consumers: (await group.consumers()).map(({ name }) => name),
  policy: (await group.info()).policy,
  released: await group.deleteConsumer("you"),
  moved: (await group.update({ start: "$" })).lastId,
  groups: (await stream.groups()).map(({ name }) => name),
  redriven: await group.redrive(),
  deleted: await stream.deleteEntries([id]),
  trimmed: await stream.trim({ maxLength: 1, approximate: false }),
  length: (await stream.info()).length,
  streams: [],
  mismatch: await refusal(stream.append({ n: 5 }, { lastId: "1-1" })),
  missing: await refusal(hg.stream("nowhere").info()),
  unreached: await refusal(createClient({ url: "localhost:1", retryMs: 0 }).stream("s").info()),
  exposed: ["http://gateway.example", "http://localhost.example"].map((url) => {
    try {
      return createClient({ url, token: "secret" }) && "sent";
    } catch (error) {
      return error.message.includes("use https") && !error.message.includes("secret");
    }
  }),
  sent: ["https://gateway.example", "http://[::1]:1", "127.0.0.1:1"].map((url) => createClient({ url, token: "t" }).url),
  kinds: [Problem.name, Disconnected.name],
};
for await (const { name } of hg.streams()) results.streams.push(name);
const nightly = hg.schedule("nightly");
await nightly.set({ stream: stream.name, fields: { n: 1 }, cron: "0 2 * * *", timeZone: "Europe/Berlin" });
const { paused, nextDueMs } = await nightly.pause();
results.schedule = { paused, nextDueMs, missed: (await nightly.update({ missed: "skip" })).missed };
results.resumed = (await nightly.resume()).nextDueMs > 0;
results.ran = (await nightly.run()) > ids[0];
results.schedules = [];
for await (const { name, fields } of hg.schedules()) results.schedules.push({ name, fields });
await nightly.delete();
results.gone = await refusal(nightly.info());
const { push } = group;
const { secret, ...made } = await push.set({ url: receiver, timeoutMs: 5000, headers: { "X-A": "b" } });
results.push = [secret.slice(0, 6), made.timeoutMs, made.headerNames, (await push.pause()).state, (await push.resume()).state];
results.rotated = (await push.rotate(0)) !== secret;
results.retried = await push.retry();
results.pushes = [];
for await (const { stream, group, url } of hg.pushes()) results.pushes.push({ stream, group, url });
await push.delete();
results.pushGone = await refusal(push.info());
await group.delete();
await stream.delete();
console.log(JSON.stringify(results));
