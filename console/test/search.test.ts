import assert from "node:assert/strict";
import { test } from "node:test";
import type { Entry } from "../src/gateway/shapes.ts";
import { searchOf } from "../src/values/search.ts";

const ENTRY: Entry = { id: "1718000000000-3", fields: { sku: "A-17", note: "cold and wet" } };

test("conditions on fields are a filter of the gateway", () => {
  assert.deepEqual(searchOf("sku=42"), { filter: { exact: { sku: "42" } }, match: undefined });
  assert.deepEqual(searchOf("sku=A-*").filter, { prefix: { sku: "A-" } });
  assert.deepEqual(searchOf("sku=*-7").filter, { suffix: { sku: "-7" } });
  assert.deepEqual(searchOf("sku=*").filter, { present: ["sku"] });
  assert.deepEqual(searchOf("sku=").filter, { present: ["sku"] });
  assert.deepEqual(searchOf("sku!=42").filter, { not: { exact: { sku: "42" } } });
  assert.deepEqual(searchOf('note="cold and wet"').filter, { exact: { note: "cold and wet" } });
  assert.deepEqual(searchOf("price>=10 price<2e1").filter, {
    all: [{ range: { price: { ge: 10 } } }, { range: { price: { lt: 20 } } }],
  });
});

test("a text that may stand anywhere is looked for here", () => {
  assert.deepEqual(searchOf("  "), { filter: undefined, match: undefined });
  for (const text of ["A-1", "17180", "sku", "cold and", "sku=*17*"]) assert.equal(searchOf(text).match!(ENTRY), true, text);
  for (const text of ["B-1", "a > b", "note=*17*"]) assert.equal(searchOf(text).match!(ENTRY), false, text);
  const both = searchOf("sku=A-17 wet");
  assert.deepEqual(both.filter, { exact: { sku: "A-17" } });
  assert.equal(both.match!(ENTRY), true);
});
