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

await stream.create({ maxLength: 100 });
await group.create({ start: "0", policy: { filters: [{ not: { present: "orderId" } }] } });
const id = await stream.append({ sku: "42", count: 7, blob: bytes, snake_case: "stays" });
const next = await stream.append({ n: 1 });
const times = hg.stream("times");
await times.appendMany([{ n: 1 }], { delayMs: 60_000, expiresAtMs: 2 ** 50 });
const [timed] = (await times.read()).entries;
await times.delete();
const page = await stream.read({ after: "0", limit: 1 });
const [entry] = page.entries;
await group.read({ consumer: "me" });
await group.nack([next], { consumer: "me", mode: "silent", error: "x".repeat(2000) });
const results = {
  entry,
  times: [timed.expiresAtMs, timed.deliverAtMs > Date.now()],
  bytes: [...bytesOf(entry, "blob")].join() === bytes.join() && new TextDecoder().decode(bytesOf(entry, "sku")),
  filtered: (await stream.read({ after: "0", filter: { exact: { snake_case: "stays" } }, columns: ["sku"] })).entries,
  errors: (await group.pending()).map(({ lastError }) => lastError ?? null),
  filters: (await group.info()).policy.filters,
  groups: (await stream.groups()).map(({ name }) => name),
  length: (await stream.info()).length,
  streams: [],
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
results.ran = (await nightly.run()) > id;
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
