// Puts, reads and deletes rows by requests; prints one JSON object of what was answered.
import { createClient, isProblem, RowChanged } from "@headgate/client";

const [url] = process.argv.slice(2);
const hg = createClient({ url, retryMs: 0 });
const stream = hg.stream("stock");
await stream.create({ keyField: "sku" });
const stock = stream.table();
const refusal = (asking) =>
  asking.catch((error) => [error instanceof RowChanged, isProblem(error, "row_changed"), error.row?.id ?? null]);
const all = async (options) => {
  const keys = [];
  for await (const { key } of stock.rows(options)) keys.push(key);
  return keys;
};

const first = await stock.put("eu/42", { count: 3 }, { ifAbsent: true, idempotencyKey: "1" });
const results = {
  first,
  repeated: await stock.put("eu/42", { count: 3 }, { ifAbsent: true, idempotencyKey: "1" }),
  row: await stock.get("eu/42"),
  taken: await refusal(stock.put("eu/42", { count: 5 }, { ifAbsent: true })),
  missing: await refusal(stock.put("43", { count: 5 }, { ifMatch: first })),
};
const second = await stock.put("eu/42", { count: 4 }, { ifMatch: first });
results.second = second;
results.stale = await refusal(stock.delete("eu/42", { ifMatch: first }));
results.waited = (await stock.wait("eu/42", { after: first })).id;
results.deleted = [await stock.delete("eu/42", { ifMatch: second }), await stock.delete("eu/42")];
results.absent = (await stock.get("eu/42")) === undefined && (await stock.wait("eu/42", { after: "0", waitMs: 0 })) === undefined;
for (const key of ["b", "..", "ü"]) await stock.put(key, { kind: key === "b" ? "x" : "y" });
await stock.put("a", { kind: "x" });
results.keys = await all({ limit: 1 });
results.filtered = await all({ filter: { exact: { kind: "y" } } });
results.begun = await all({ prefix: "b" });
results.columns = [];
for await (const { fields } of stock.rows({ prefix: "a", columns: ["kind"] })) results.columns.push(fields);
console.log(JSON.stringify(results));
