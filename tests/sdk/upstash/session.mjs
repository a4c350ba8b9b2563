// A session of the unmodified client with the gateway at the URL of the first argument.
// It prints what each step was answered, as one JSON object.
import { Redis } from "@upstash/redis";

const redis = new Redis({ url: process.argv[2], token: "none needed", enableTelemetry: false });
const told = {};

told.add = [
  await redis.xadd("s", "1-1", { sku: "a", name: "é" }),
  await redis.xadd("s", "1-*", { sku: "b" }),
  await redis.xadd("s", "2-0", { sku: "c" }, { trim: { type: "MAXLEN", threshold: 9, comparison: "=" } }),
  await redis.xadd("t", "*", { sku: "d" }, { nomkStream: true }),
];
told.add_again = await redis.xadd("s", "2-0", { sku: "c" }).catch((error) => error.message);
told.length = await redis.xlen("s");
told.range = await redis.xrange("s", "-", "+");
told.reverse_range = await redis.xrevrange("s", "+", "-", 1);
told.read = await redis.xread(["s", "t"], ["1-2", "0"], { count: 5 });

told.group = [
  await redis.xgroup("s", { type: "CREATE", group: "g", id: "0" }),
  await redis.xgroup("t", { type: "CREATE", group: "g", id: "$", options: { MKSTREAM: true } }),
  await redis.xgroup("s", { type: "CREATECONSUMER", group: "g", consumer: "c" }),
  await redis.xgroup("t", { type: "SETID", group: "g", id: "0" }),
  await redis.xgroup("t", { type: "DELCONSUMER", group: "g", consumer: "c" }),
  await redis.xgroup("t", { type: "DESTROY", group: "g" }),
];
told.read_group = await redis.xreadgroup("g", "c", "s", ">", { count: 2 });
told.read_group_no_ack = await redis.xreadgroup("g", "c", ["s"], [">"], { NOACK: true });
told.groups = await redis.xinfo("s", { type: "GROUPS" });
told.pending = await redis.xpending("s", "g", "-", "+", 10, { consumer: "c" });
told.claim = await redis.xclaim("s", "g", "d", 0, ["1-1"], { retryCount: 7 });
told.claim_just_id = await redis.xclaim("s", "g", "d", 0, "1-2", { justId: true });
told.autoclaim = await redis.xautoclaim("s", "g", "c", 0, "0-0", { count: 1 });
told.ack = await redis.xack("s", "g", ["1-1", "9-9"]);
told.ack_and_delete = await redis.xackdel("s", "g", "KEEPREF", "1-2", "9-9");
told.delete = await redis.xdel("s", ["1-1"]);
told.delete_each = await redis.xdelex("s", "ACKED", "2-0", "9-9");

told.pipeline = await redis.pipeline().xadd("p", "1-0", { n: 1 }).xadd("p", "2-0", { n: 2 }).xlen("p").exec();
told.trim = await redis.xtrim("p", { strategy: "MAXLEN", exactness: "=", threshold: 1 });
told.multi = await redis.multi().xadd("p", "3-0", { n: 3 }).xdel("p", "2-0").xrange("p", "-", "+").exec();
told.del = await redis.del("s", "p", "t", "none");

console.log(JSON.stringify(told));
