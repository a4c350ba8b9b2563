/** Bucket: what the object store behind the journal has, who may write, and what would be lost with this machine. */
import { call, send } from "../../gateway/calls.js";
import { usePolled } from "../../gateway/polling.js";
import { denialOf } from "../../gateway/principal.js";
import { type Fact, Facts } from "../../parts/facts.js";
import type { Bucket as State } from "../../gateway/shapes.js";
import { bytes, count } from "../../values/numbers.js";
import { age } from "../../values/times.js";

const EVERY_MS = 3000;

export function Bucket() {
  return denialOf({ right: "admin" }) === undefined ? <Known /> : null;
}

function Known() {
  const { data } = usePolled((signal) => send(call("get", "/v1/admin/journal"), signal), EVERY_MS, "");
  const bucket = data.value?.bucket;
  if (!bucket) return null;
  return (
    <section aria-label="Bucket">
      <header class="section">
        <h2>Bucket</h2>
        <span class="soft">{bucket.url}</span>
      </header>
      {bucket.error && (
        <p class="refusal" role="status">
          <b>The bucket rejects writes.</b> {bucket.error}
        </p>
      )}
      <Facts facts={factsOf(bucket)} />
    </section>
  );
}

function factsOf(bucket: State): Fact[] {
  const isLeader = bucket.role === "leader";
  const requests = Object.entries(bucket.requests).filter(([kind]) => !kind.endsWith("_bytes"));
  const lacks: Fact[] = isLeader
    ? [
        {
          name: "not in the bucket yet",
          value: bucket.unshipped_ms == null ? "nothing" : `${bytes(bucket.unshipped_bytes)}, for ${age(bucket.unshipped_ms)}`,
          title: "Journal data that is lost if this machine is lost",
          ...(bucket.error ? { class: "warn" } : {}),
        },
      ]
    : [{ name: "behind the bucket", value: bucket.behind_ms == null ? "unknown" : age(bucket.behind_ms), title: "Time since this standby had all data of the bucket" }];
  return [
    { name: "this gateway", value: bucket.role },
    { name: "term", value: count(bucket.term), title: "Increases with each new leader" },
    { name: "leader", value: isLeader ? "this gateway" : bucket.leader || "unknown" },
    ...lacks,
    { name: "changes are confirmed", value: bucket.is_durable ? "once in the bucket" : "once on disk" },
    { name: "size", value: bytes(bucket.bucket_bytes), title: "Size of the files in the newest manifest" },
    { name: "only in the bucket", value: bytes(bucket.remote_bytes), title: "Files that are no longer on this disk" },
    { name: "requests", value: requests.map(([kind, number]) => `${count(number)} ${kind}`).join(", ") || "none", title: "Since the gateway started, by billing type" },
  ];
}
