import assert from "node:assert/strict";
import { test } from "node:test";
import { matching, wantedOf } from "../src/values/finding.ts";

const GROUPS = [
  { stream: "orders", group: "audit", lag: 0 },
  { stream: "orders", group: "billing", lag: 3 },
  { stream: "payments", group: "re-billing", lag: 0 },
  { stream: "payments", group: "billing", lag: 0 },
];
const found = (text: string) => matching(GROUPS, wantedOf(text)).map(({ stream, group }) => `${stream}/${group}`);

test("a group is found by a part of its name, in whatever stream", () => {
  assert.deepEqual(found("bill"), ["orders/billing", "payments/billing", "payments/re-billing"]);
  assert.deepEqual(found("AUD"), ["orders/audit"]);
  assert.deepEqual(found(""), []);
});

test("behind a slash stands the beginning of a group, before it that of a stream", () => {
  assert.deepEqual(found("orders/"), ["orders/audit", "orders/billing"]);
  assert.deepEqual(found("pay / bill"), ["payments/billing"]);
  assert.deepEqual(found("orders/x"), []);
});

test("a group that came twice is shown once", () => {
  assert.equal(matching([...GROUPS, ...GROUPS], wantedOf("audit")).length, 1);
});
