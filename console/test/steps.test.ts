/** Steps: the rows of an entry, as they are shown. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { groupsWithSteps, stepsOf } from "../src/values/steps.js";

const row = (name: string, ms: number, fields: Record<string, string>) => ({ key: `1-0/${name}`, id: `${ms}-0`, fields });

test("steps come in the order in which they were done, with what came of them", () => {
  const steps = stepsOf("1-0", [row("step/b/1", 20, { result: '"sent"' }), row("step/a", 10, { result: "7" })]);
  assert.deepEqual(steps, [
    { name: "a", atMs: 10, text: "7", isWaiting: false },
    { name: "b/1", atMs: 20, text: '"sent"', isWaiting: false },
  ]);
});

test("what an entry waits for is said, and until when", () => {
  const day = 86_400_000;
  const [sleep, wait, late, done] = stepsOf("1-0", [
    row("sleep/1", 10, { for_ms: String(day) }),
    row("wait/approved%3A42", 20, { for_ms: String(day), since_ms: "5" }),
    row("wait/b", 30, { timed_out: "1" }),
    row("wait/c", 40, { value: "true" }),
  ]);
  assert.deepEqual([sleep?.name, sleep?.isWaiting, wait?.name, wait?.isWaiting], ["sleep 1", true, "wait for approved:42", true]);
  assert.match(wait?.text ?? "", /^until .*\.005$/);
  assert.deepEqual([late?.text, done?.text], ["timed out", "true"]);
});

test("the groups that have steps are told by the names of their tables", () => {
  assert.deepEqual(groupsWithSteps("orders", ["orders.a.steps", "orders.b.c.steps", "orders.dead", "orders2.a.steps"]), ["a", "b.c"]);
});
