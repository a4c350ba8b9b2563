import assert from "node:assert/strict";
import { test } from "node:test";
import type { Push } from "../src/gateway/shapes.ts";
import { bands } from "../src/values/ages.ts";
import { originOf, payloadOf, pretty } from "../src/values/fields.ts";
import { idOf, namesIn, wordsOf } from "../src/values/grants.ts";
import { idFrom, timeOf } from "../src/values/ids.ts";
import { bytes, short } from "../src/values/numbers.ts";
import { spoken, worstFirst } from "../src/values/pushes.ts";
import { brief, duration, millisecondsFrom, written } from "../src/values/times.ts";

const NOON = new Date(2026, 10, 23, 12, 0, 0).getTime();

test("a place in a stream is an id, a time of day, a date, or how long ago", () => {
  assert.equal(idFrom("1718000000000-3", NOON), "1718000000000-3");
  assert.equal(timeOf("1718000000000-3"), 1718000000000);
  assert.equal(idFrom("10:30", NOON), String(NOON - 90 * 60_000));
  assert.equal(idFrom("5m ago", NOON), String(NOON - 300_000));
  assert.equal(idFrom("2026-11-23 12:00", NOON), String(NOON));
  assert.equal(idFrom("soon", NOON), undefined);
});

test("durations are read as they are written", () => {
  for (const text of ["90s", "12h", "7d", "1500ms"]) assert.equal(written(millisecondsFrom(text)!), text);
  assert.equal(millisecondsFrom("1.5h"), 5_400_000);
  assert.equal(millisecondsFrom("seven"), undefined);
  assert.equal(duration(90_000), "1 min 30 s");
  assert.equal(brief(90_000), "1 min");
});

test("numbers are short", () => {
  assert.deepEqual([0, 9.99, 950, 12_345, 4_560_000].map(short), ["0", "9.99", "950", "12.3k", "4.56M"]);
  assert.equal(bytes(1536), "1.5 KiB");
  assert.equal(short(100_000), "100k");
});

test("a dead letter is told from its origin", () => {
  const fields = { sku: "A", _stream: "orders", _id: "1-0", _group: "billing", _deliveries: "3", _reason: "max_deliveries" };
  const entry = { id: "2-0", fields };
  assert.equal(originOf(entry)?.deliveries, "3");
  assert.equal(originOf({ ...entry, fields: { ...entry.fields, _deliveries: "" } })?.deliveries, "–");
  assert.deepEqual(payloadOf(entry), [["sku", "A"]]);
  assert.equal(originOf({ id: "1-0", fields: { sku: "A" } }), undefined);
});

test("JSON in a value is shown with line breaks, and other text as it is", () => {
  assert.equal(pretty('{"a":1}'), '{\n  "a": 1\n}');
  assert.equal(pretty("{no"), "{no");
});

test("pending entries are counted by how long they are idle", () => {
  const pending = [500, 5000, 90_000, null].map((idle_ms) => ({ id: "1-0", consumer: "c", idle_ms, deliveries: 1 }));
  assert.deepEqual(bands(pending).map(({ count }) => count), [1, 1, 0, 1, 0, 0, 0]);
});

test("pushes that need somebody come first, and say what is the matter", () => {
  const push = { stream: "orders", group: "mail", failing_since_ms: NOON, failure_count: 7, disable_after_ms: 3_600_000 } as Push;
  const states = ["active", "paused", "failing", "disabled", "unreadable"] as const;
  const sorted = worstFirst(states.map((state) => ({ ...push, state })));
  assert.deepEqual(sorted.map(({ state }) => state), states.toReversed());
  const { kind, text } = spoken({ ...push, state: "failing", answers: [{ error: "answered 500" } as Push["answers"][number]] });
  assert.equal(kind, "wait");
  assert.match(text, /^7 requests failed in a row\. Last error: answered 500\. .* at (\d\d \w+ )?13:00:00\.$/);
});

test("the rights of a key are told in words", () => {
  const grant = { streams: ["orders", "bills.*"], do: ["append" as const, "consume" as const], groups: ["billing"], consumer: "{sub}", keys: null, create: true };
  assert.equal(wordsOf(grant), "append, consume on orders, bills.*; group billing; as {sub}; creates streams");
  assert.deepEqual(namesIn(" orders,, bills.* "), ["orders", "bills.*"]);
  assert.equal(idOf("hg_6jze42yvcm_abc"), "6jze42yvcm");
  assert.equal(idOf("eyJhbGciOi"), undefined);
});
