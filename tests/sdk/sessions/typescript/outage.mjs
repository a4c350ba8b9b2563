// Appends while nobody answers, in time that is made here: the way is there again after so many seconds. One JSON line
// of the appends that are there, and one of the seconds after which the others were given up.
import { mock } from "node:test";
import { createClient } from "@headgate/client";

mock.timers.enable({ apis: ["setTimeout", "Date"] });
const [awayS, count] = process.argv.slice(2).map(Number);
const inTime = (work) => async (...words) => {
  const begun = Date.now();
  const asked = work(begun, ...words).finally(() => (asked.isOver = true));
  while (!asked.isOver) {
    mock.timers.tick(50);
    await new Promise(setImmediate);
  }
  return asked;
};
const appended = inTime((begun) => {
  const keys = new Set();
  const fetch = async (_url, { headers }) => {
    keys.add(headers.get("idempotency-key"));
    if (Date.now() - begun < awayS * 1000) throw new TypeError("fetch failed");
    return new Response(JSON.stringify({ id: "1-0" }));
  };
  const asked = createClient({ url: "http://127.0.0.1:1", fetch }).stream("orders").append({ sku: "42" });
  return asked.then((id) => ({ id, keys: keys.size }), ({ name }) => ({ name, afterS: (Date.now() - begun) / 1000 }));
});
const outcomes = [];
for (let each = 0; each < count; each += 1) outcomes.push(await appended());
console.log(JSON.stringify(outcomes));
process.exit(); // timers of Node itself were made here, too
