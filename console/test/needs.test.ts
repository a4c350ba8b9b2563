import assert from "node:assert/strict";
import { test } from "node:test";
import type { Group, PushSummary } from "../src/gateway/shapes.ts";
import { type Look, lookAt, needOf, unsent } from "../src/values/needs.ts";

const GROUP: Group = { name: "g", last_id: "1-0", entries_read: 100, lag: 0, pending: 0, released: 0, delayed: 0, consumers: 1, policy: {} };

/** Return looks at a group, three seconds apart. */
function looks(...changes: Partial<Group>[]): Look[] {
  return changes.reduce<Look[]>((all, change, at) => [...all, lookAt({ ...GROUP, ...change }, all.at(-1), 3000 * at)], []);
}

test("a group that is caught up needs nobody, and so does one that makes up its lag at once", () => {
  assert.equal(needOf(looks({}), {}), undefined);
  assert.equal(needOf(looks({}), { letters: { count: 0, shown: "0" } }), undefined);
  assert.equal(needOf(looks({ lag: 9 }, {}, { lag: 9, last_id: "2-0" }), {}), undefined);
  assert.equal(needOf(looks({ lag: 9 }, { lag: 9, last_id: "2-0", entries_read: 9000 }), {}), undefined);
});

test("a group that delivers nothing while entries wait is the worst, with the reason", () => {
  const nobody = needOf(looks({ lag: 3, consumers: 0 }), {})!;
  assert.deepEqual([nobody.kind, nobody.tab, nobody.text], ["bad", "consumers", "No consumer: 3 entries wait"]);
  const still = needOf(looks({ lag: 3 }, { lag: 3 }, { lag: 5 }), {})!;
  assert.equal(still.text, "Nothing delivered for 6 s: 3 entries wait");
  const paused = needOf(looks({ released: 1, policy: { paused_until_ms: Date.now() + 60_000 } }), {})!;
  assert.match(paused.text, /^Paused until .*: 1 entry waits$/);
  assert.equal(paused.tab, "settings");
  const delayed = looks({ released: 1, delayed: 1 }, { released: 1, delayed: 1 }, { released: 1, delayed: 1 });
  assert.equal(needOf(delayed, {}), undefined);
});

test("a fair group that is behind names its noisy key, and delivers while its position stands", () => {
  const noisy_key = { key: "acme", waiting: 900 };
  const need = needOf(looks({ lag: 1000, noisy_key }, { lag: 1300, entries_read: 101, noisy_key }, { lag: 1600, entries_read: 102, noisy_key }), {})!;
  assert.deepEqual([need.tab, need.text], ["keys", "1,600 entries behind, 900 of them of acme, growing by 100/s"]);
});

test("a group that is behind says where it goes, and names its dead letters", () => {
  const moving = (...lags: number[]) => looks(...lags.map((lag, at) => ({ lag, last_id: `${at}-0` })));
  const letters = { letters: { count: 6, shown: "6" } };
  assert.equal(needOf(moving(10, 40), {})!.text, "40 entries behind, growing by 10/s");
  assert.equal(needOf(moving(40, 10), letters)!.text, "10 entries behind, shrinking by 10/s; 6 dead letters");
  const dead = needOf(moving(0), letters)!;
  assert.deepEqual([dead.tab, dead.text], ["dead-letters", "6 dead letters"]);
  const ranks = [needOf(looks({ lag: 1, consumers: 0 }), {}), needOf(moving(1, 2), {}), needOf(moving(2, 1), {}), dead];
  assert.deepEqual(ranks.map((need) => need!.rank), [4, 3, 2, 1]);
});

test("a push that does not send is the reason, with what waits for it", () => {
  const push = (state: PushSummary["state"]) => ({ state, disable_after_ms: 1000, failing_since_ms: state === "failing" ? Date.now() : null }) as PushSummary;
  const waiting = looks({ lag: 3, consumers: 0 });
  const failing = needOf(waiting, { push: push("failing") })!;
  assert.deepEqual([failing.kind, failing.tab], ["wait", "push"]);
  assert.match(failing.text, /^Push failing since [\d:]+: 3 entries wait$/);
  assert.match(needOf(looks({}), { push: push("failing") })!.text, /^Push failing since [\d:]+$/);
  assert.equal(needOf(looks({}), { push: push("disabled") })!.kind, "bad");
  assert.equal(needOf(waiting, { push: push("paused") })!.text, "Push paused: 3 entries wait");
  assert.equal(needOf(looks({}), { push: push("paused") }), undefined);
  assert.match(unsent(push("failing"))!.text, /^Push failing since [\d:]+$/);
  assert.equal(unsent(push("active")), undefined);
  assert.equal(needOf(waiting, { push: push("active") })!.text, "No consumer: 3 entries wait");
});
