// A session of the unmodified client with the gateway at the port of the first argument.
// It prints what each step was answered, as one JSON object.
import { createClient, createClientPool } from "redis";

const [port, stream, RESP] = [process.argv[2], process.argv[3], Number(process.argv[4])];
const options = { url: `redis://127.0.0.1:${port}`, name: "node-redis-test", RESP };
const client = await createClient(options).connect();
const answers = {};

answers.add = [
  await client.xAdd(stream, "1-1", { sku: "a", name: "é" }),
  await client.xAdd(stream, "2-0", { sku: "b" }, { TRIM: { strategy: "MAXLEN", strategyModifier: "=", threshold: 10 } }),
];
answers.add_again = await client.xAdd(stream, "2-0", { sku: "b" }).catch((error) => error.message);
answers.range = await client.xRange(stream, "-", "+");
const info = await client.xInfoStream(stream);
answers.info = [info.length, info["last-generated-id"], info["first-entry"]];

answers.group = await client.xGroupCreate(stream, "g", "0");
answers.read = await client.xReadGroup("g", "me", { key: stream, id: ">" }, { COUNT: 1 });
answers.pending = await client.xPending(stream, "g");
answers.pending_range = (await client.xPendingRange(stream, "g", "-", "+", 10)).map((each) => [each.id, each.consumer, each.deliveriesCounter]);
answers.autoclaim = await client.xAutoClaim(stream, "g", "you", 0, "0-0");
answers.groups = (await client.xInfoGroups(stream)).map((group) => ({ ...group }));
answers.ack = await client.xAck(stream, "g", ["1-1", "9-9"]);

// Commands of one turn of the event loop go out together.
const ids = await Promise.all(Array.from({ length: 500 }, (_, n) => client.xAdd(`${stream}-eager`, `${n + 1}-0`, { n: `${n}` })));
answers.eager = [ids.length, ids.at(-1), await client.xLen(`${stream}-eager`)];

answers.multi = await client.multi().xAdd(stream, "3-0", { n: "3" }).xLen(stream).exec();
const pool = await createClientPool(options).connect();
answers.watched = await pool.execute(async (isolated) => {
  await isolated.watch(stream);
  await client.xAdd(stream, "5-0", { n: "5" });
  return isolated.multi().xAdd(stream, "6-0", { n: "6" }).exec().catch((error) => error.constructor.name);
});

const reader = await client.duplicate().connect();
const reading = reader.xRead({ key: stream, id: "$" }, { BLOCK: 20000 });
while (!(await client.clientList()).some((each) => each.flags.includes("b"))) {}
await client.xAdd(stream, "7-0", { n: "7" });
answers.blocked = await reading;
answers.nothing = await reader.xRead({ key: stream, id: "$" }, { BLOCK: 1 });

answers.scanned = [];
for await (const keys of client.scanIterator({ MATCH: `${stream}*` })) answers.scanned.push(...keys);
answers.scanned.sort();
answers.name = (await client.clientInfo()).name;
answers.deleted = await client.del([stream, `${stream}-eager`]);

for (const each of [client, reader, pool]) await each.close();
console.log(JSON.stringify(answers));
