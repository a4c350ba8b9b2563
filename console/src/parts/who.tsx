/** Who: the name of the principal, and the way out. Its rights are asked for again, as they may change. */
import { useEffect } from "preact/hooks";
import { call, send } from "../gateway/calls.js";
import { forgetKey, key } from "../gateway/key.js";
import { usePolled } from "../gateway/polling.js";
import { principal } from "../gateway/principal.js";
import { moment } from "../values/times.js";

const EVERY_MS = 30_000;

export function Who() {
  const { data } = usePolled((signal) => send(call("get", "/v1/principal"), signal), EVERY_MS, key.value ?? "");
  useEffect(() => {
    principal.value = data.value;
  }, [data.value]);
  if (key.value === undefined) return null;
  const { id, expires_at_ms: endMs, allowed = [] } = data.value ?? {};
  const rights = allowed.map((each) => `${each.do.join(", ")}: ${each.streams.join(", ")}`);
  const title = [endMs ? `until ${moment(endMs)}` : "", ...rights].filter(Boolean).join("\n");
  return (
    <>
      {id && (
        <span class="soft wide" title={title}>
          {id}
        </span>
      )}
      <button type="button" class="small" onClick={() => forgetKey()}>
        Sign out
      </button>
    </>
  );
}
