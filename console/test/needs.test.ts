import assert from "node:assert/strict";
import { test } from "node:test";
import type { Group, PushSummary } from "../src/gateway/shapes.ts";
import { needOf, needOfPush, worstNeedFirst } from "../src/values/needs.ts";

const GROUP: Group = {
  name: "g", last_id: "1-0", entries_read: 100, lag: 0, pending: 0, released: 0, delayed: 0, consumers: 1, policy: {}, verdict: "ok", reasons: [],
};
const NOBODY = { code: "no_consumer", severity: "critical", entries: 3, text: "No consumer: 3 entries wait" } as const;
const BEHIND = { code: "behind", severity: "warning", entries: 9, text: "Behind by 2 m: 9 entries wait" } as const;
const LETTERS = { count: 6, shown: "6+" };

test("the verdict of the gateway says what a group needs somebody for", () => {
  assert.equal(needOf(GROUP), undefined);
  const text = "No consumer: 3 entries wait; 6+ dead letters";
  assert.deepEqual(needOf({ ...GROUP, verdict: "critical", reasons: [NOBODY] }, LETTERS), { kind: "bad", entries: 3, tab: "consumers", text });
  assert.deepEqual(needOf(GROUP, LETTERS), { kind: "wait", entries: 6, tab: "dead-letters", text: "6+ dead letters" });
  assert.equal(needOf(GROUP, { count: 0, shown: "0" }), undefined);
});

test("whoever is behind because of one key sees the keys", () => {
  const behind: Group = { ...GROUP, verdict: "warning", reasons: [BEHIND] };
  assert.equal(needOf(behind)!.tab, "pending");
  assert.equal(needOf({ ...behind, noisy_key: { key: "eu", waiting: 8 } })!.tab, "keys");
});

test("pushes over patterns are told if they send nothing, and the worst comes first", () => {
  const push = (state: PushSummary["state"]) => needOfPush({ state, failing_since_ms: 0, disabled_at_ms: 0, disable_after_ms: 0, failure_count: 5, disabled_reason: "410" } as PushSummary);
  assert.equal(push("active"), undefined);
  assert.equal(push("paused"), undefined);
  assert.equal(push("disabled")!.kind, "bad");
  const needs = [needOf({ ...GROUP, verdict: "warning", reasons: [BEHIND] })!, push("failing")!, push("disabled")!];
  assert.deepEqual(needs.toSorted(worstNeedFirst).map(({ kind, entries }) => [kind, entries]), [["bad", 0], ["wait", 9], ["wait", 0]]);
});
