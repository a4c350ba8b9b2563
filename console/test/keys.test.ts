import assert from "node:assert/strict";
import { test } from "node:test";
import { fieldsOf, keyInPath, merged, valueOfKey } from "../src/values/keys.ts";

test("the key of a row is the value of its field, as text if it is some", () => {
  assert.equal(valueOfKey("eu/42"), "eu/42");
  assert.equal(valueOfKey("base64:YmFzZTY0Ong="), "base64:x");
  assert.equal(valueOfKey("base64:"), "");
  assert.equal(valueOfKey("base64:/w=="), undefined);
});

test("a key of dots is no way up in a path", () => {
  assert.equal(keyInPath(".."), "base64:Li4=");
  assert.equal(keyInPath("..."), "...");
});

test("a row has its fields besides its key", () => {
  assert.deepEqual(fieldsOf({ id: "1-0", fields: { sku: "42", count: "3" } }, "sku"), [["count", "3"]]);
});

test("of two changes of a row, both count where they are of different fields", () => {
  const row = (fields: Record<string, string>) => ({ id: "1-0", fields: { sku: "42", ...fields } });
  const [seen, now] = [row({ a: "1", b: "1", c: "1" }), row({ a: "1", b: "2", c: "2", e: "2" })];
  assert.deepEqual(merged([["a", "3"], ["b", "1"], ["d", "3"]], seen, now, "sku"), [["a", "3"], ["b", "2"], ["e", "2"], ["d", "3"]]);
});
