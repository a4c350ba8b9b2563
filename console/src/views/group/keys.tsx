/** Keys: of a fair group, with what waits of each, how long, and how much it gets. */
import { call, send } from "../../gateway/calls.js";
import { usePolled } from "../../gateway/polling.js";
import { Grid } from "../../parts/grid.js";
import { Refusal } from "../../parts/refusal.js";
import { count, counted } from "../../values/numbers.js";
import { brief } from "../../values/times.js";

const EVERY_MS = 2000;
const LISTED = 200;
const COLUMNS = [
  { title: "Key" },
  { title: "Waiting", class: "number" },
  { title: "Pending", class: "number" },
  { title: "Oldest", class: "number" },
  { title: "Share (last minute)", class: "share" },
];

export function Keys({ place, noisy }: { place: { stream: string; group: string }; noisy: string | null | undefined }) {
  const request = call("get", "/v1/streams/{stream}/groups/{group}/keys", { params: { path: place, query: { order: "waiting", limit: LISTED } } });
  const { data, problem } = usePolled((signal) => send(request, signal), EVERY_MS, JSON.stringify(place));
  if (problem.value && !data.value) return <Refusal problem={problem.value} what="keys" />;
  if (!data.value) return null;
  const { keys, key_count: keyCount, waiting, is_complete: isComplete } = data.value;
  if (keys.length === 0) return <p class="empty">No waiting entries, and no deliveries in the last minute.</p>;
  return (
    <>
      <p class="soft">
        {counted(waiting, "entry", "entries")} of {counted(keyCount, "key")} {waiting === 1 ? "is" : "are"} waiting.
        {!isComplete && " More entries follow. The group indexes them in order."}
      </p>
      <Grid
        label="Keys"
        class="keys"
        columns={COLUMNS}
        rows={keys}
        keyOf={({ key }) => JSON.stringify(key)}
        cells={({ key, waiting, pending, oldest_age_ms, share, is_resting }) => [
          <span class={noisy !== undefined && key === noisy ? "warn" : ""} title={is_resting ? "The key has reached its maximum of pending entries." : ""}>
            {key ?? <span class="soft">without the field</span>}
          </span>,
          <span class={waiting ? "" : "soft"}>{count(waiting)}</span>,
          <span class={pending ? "" : "soft"}>{count(pending)}</span>,
          oldest_age_ms == null ? <span class="soft">–</span> : `${brief(oldest_age_ms)} ago`,
          <span class="share">
            <meter value={share} max={1} /> {Math.round(share * 100)} %
          </span>,
        ]}
      />
      {keyCount > keys.length && <p class="soft">Showing the {counted(keys.length, "key")} with the most waiting entries.</p>}
    </>
  );
}
