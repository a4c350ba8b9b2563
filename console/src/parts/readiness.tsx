/** Readiness: whether the gateway takes requests, at a glance. */
import { call, send } from "../gateway/calls.js";
import { usePolled } from "../gateway/polling.js";
import { useEffect } from "preact/hooks";
import { standby } from "./standby.js";

const EVERY_MS = 3000;
const DURABLE = { nothing: "in memory only", everysec: "on disk within a second", disk: "on disk", bucket: "on disk and in the bucket", replica: "on disk, and a replica's" };

export function Readiness() {
  const { data, problem } = usePolled((signal) => send(call("get", "/readyz"), signal), EVERY_MS, "");
  const refused = problem.value;
  useEffect(() => {
    standby.value = refused?.code === "not_leader" ? refused : undefined;
  }, [refused]);
  const warnings = data.value?.warnings ?? [];
  const durable = data.value?.durable;
  const title = refused?.message ?? [durable && `An answer to a change waits until it is ${DURABLE[durable]}.`, ...warnings].join("\n");
  const [kind, text] = refused ? ["bad", refused.isUnreachable ? "not reachable" : standby.value ? "standby" : "not ready"] : warnings.length ? ["wait", "ready"] : data.value ? ["good", "ready"] : ["wait", "…"];
  return (
    <span class={`state ${kind}`} role="status" title={title}>
      {text}
    </span>
  );
}
