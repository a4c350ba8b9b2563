// A session of the unmodified client with the gateway at the port of the first argument.
// It prints what each step was answered, as one JSON object.
import { Redis } from "ioredis";

const options = { host: "127.0.0.1", port: Number(process.argv[2]) };
const [stream, followed] = [process.argv[3], `${process.argv[3]}-followed`];
const redis = new Redis({ ...options, connectionName: "ioredis-test" });
const answers = {};

answers.add = [
  await redis.xadd(stream, "1-1", "sku", "a", "name", "é"),
  await redis.xadd(stream, "MAXLEN", "=", 10, "2-0", "sku", "b"),
];
answers.add_again = await redis.xadd(stream, "2-0", "sku", "b").catch((error) => error.message);
answers.range = await redis.xrange(stream, "-", "+");
answers.info = (await redis.xinfo("STREAM", stream)).slice(0, 2);

answers.group = await redis.xgroup("CREATE", stream, "g", "0");
answers.read = await redis.xreadgroup("GROUP", "g", "me", "COUNT", 1, "STREAMS", stream, ">");
answers.pending = (await redis.xpending(stream, "g", "-", "+", 10)).map(([id, owner, , count]) => [id, owner, count]);
answers.autoclaim = await redis.xautoclaim(stream, "g", "you", 0, "0", "COUNT", 10);
answers.ack = await redis.xack(stream, "g", "1-1", "9-9");

answers.pipeline = await redis.pipeline().xadd(stream, "3-0", "n", 3).xadd(stream, "3-0", "n", 3).xlen(stream).exec();
answers.pipeline[1][0] = answers.pipeline[1][0].message;
answers.multi = await redis.multi().xadd(stream, "4-0", "n", 4).xdel(stream, "3-0").xlen(stream).exec();
await redis.watch(stream);
const other = redis.duplicate();
await other.xadd(stream, "5-0", "n", 5);
answers.watched = await redis.multi().xadd(stream, "6-0", "n", 6).exec();

// Commands of one turn of the event loop go out together.
const eager = new Redis({ ...options, enableAutoPipelining: true });
const ids = await Promise.all(Array.from({ length: 500 }, (_, n) => eager.xadd(`${stream}-eager`, `${n + 1}-0`, "n", n)));
answers.eager = [ids.length, ids.at(-1), await eager.xlen(`${stream}-eager`)];

// A read that blocks has a connection of its own, as clients do it.
const reader = redis.duplicate();
const reading = reader.xread("BLOCK", 20000, "STREAMS", followed, "$");
while (!(await redis.client("LIST")).includes("flags=b")) {}
await redis.xadd(followed, "1-0", "n", 1);
answers.blocked = await reading;
answers.nothing = await reader.xread("BLOCK", 1, "STREAMS", followed, "$");

answers.bytes = (await redis.xrangeBuffer(stream, "2-0", "2-0"))[0][1][1].toString("hex");
answers.scanned = [];
for await (const keys of redis.scanStream({ match: `${stream}*`, type: "stream" })) answers.scanned.push(...keys);
answers.scanned.sort();

// A connection that is ended is made anew.
const before = await redis.client("ID");
await other.client("KILL", "ID", before);
answers.name = await redis.client("GETNAME");
answers.anew = (await redis.client("ID")) !== before;
answers.deleted = await redis.del(stream, followed, `${stream}-eager`);

for (const client of [redis, other, eager, reader]) await client.quit();
console.log(JSON.stringify(answers));
