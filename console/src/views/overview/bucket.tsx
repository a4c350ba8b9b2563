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
          <b>The bucket takes nothing for now.</b> {bucket.error}
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
          name: "not in it yet",
          value: bucket.unshipped_ms == null ? "nothing" : `${bytes(bucket.unshipped_bytes)}, for ${age(bucket.unshipped_ms)}`,
          title: "Journal that would be lost with this machine",
          ...(bucket.error ? { class: "warn" } : {}),
        },
      ]
    : [{ name: "behind it", value: bucket.behind_ms == null ? "unknown" : age(bucket.behind_ms), title: "How long ago this standby knew all that the bucket had" }];
  return [
    { name: "this gateway", value: bucket.role },
    { name: "term", value: count(bucket.term), title: "It grows with each leader" },
    { name: "leader", value: isLeader ? "this one" : bucket.leader || "unknown" },
    ...lacks,
    { name: "an answer waits for", value: bucket.is_durable ? "the bucket" : "the disk" },
    { name: "size", value: bytes(bucket.bucket_bytes), title: "What the newest manifest names" },
    { name: "in the bucket alone", value: bytes(bucket.remote_bytes), title: "Files that are not on this disk any more" },
    { name: "requests", value: requests.map(([kind, number]) => `${count(number)} ${kind}`).join(", ") || "none", title: "Since the start, as providers bill them" },
  ];
}
