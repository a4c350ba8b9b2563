/** Readiness: whether the gateway takes requests, at a glance. */
import { call, send } from "../gateway/calls.js";
import { usePolled } from "../gateway/polling.js";
import { useEffect } from "preact/hooks";
import { standby } from "./standby.js";

const EVERY_MS = 3000;
const DURABLE = {
  nothing: "before they are on disk",
  everysec: "before they are on disk, which takes at most one second",
  disk: "once they are on disk",
  bucket: "once they are on disk and in the bucket",
  replica: "once they are on disk and on a replica",
};

export function Readiness() {
  const { data, problem } = usePolled((signal) => send(call("get", "/readyz"), signal), EVERY_MS, "");
  const refused = problem.value;
  useEffect(() => {
    standby.value = refused?.code === "not_leader" ? refused : undefined;
  }, [refused]);
  const warnings = data.value?.warnings ?? [];
  const durable = data.value?.durable;
  const title = refused?.message ?? [durable && `The gateway confirms changes ${DURABLE[durable]}.`, ...warnings].join("\n");
  const [kind, text] = refused ? ["bad", refused.isUnreachable ? "unreachable" : standby.value ? "standby" : "not ready"] : warnings.length ? ["wait", "ready"] : data.value ? ["good", "ready"] : ["wait", "…"];
  return (
    <span class={`state ${kind}`} role="status" title={title}>
      {text}
    </span>
  );
}
