/** Readiness: whether the gateway takes requests, at a glance. */
import { call, send } from "../gateway/calls.js";
import { usePolled } from "../gateway/polling.js";

const EVERY_MS = 3000;
const DURABLE = { nothing: "in memory only", everysec: "on disk within a second", disk: "on disk", replica: "on disk, and a replica's" };

export function Readiness() {
  const { data, problem } = usePolled((signal) => send(call("get", "/readyz"), signal), EVERY_MS, "");
  const refused = problem.value;
  const warnings = data.value?.warnings ?? [];
  const durable = data.value?.durable;
  const title = refused?.message ?? [durable && `An answer to a change waits until it is ${DURABLE[durable]}.`, ...warnings].join("\n");
  const [kind, text] = refused ? ["bad", refused.isUnreachable ? "not reachable" : "not ready"] : warnings.length ? ["wait", "ready"] : data.value ? ["good", "ready"] : ["wait", "…"];
  return (
    <span class={`state ${kind}`} role="status" title={title}>
      {text}
    </span>
  );
}
