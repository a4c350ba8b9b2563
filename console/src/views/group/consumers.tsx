/** Consumers: of a group, with what each holds and when it last asked. */
import { deleteConsumer } from "../../acts/groups.js";
import { call, send } from "../../gateway/calls.js";
import { usePolled } from "../../gateway/polling.js";
import { ActButton } from "../../parts/act.js";
import { Grid } from "../../parts/grid.js";
import { Refusal } from "../../parts/refusal.js";
import { go, groupPlace } from "../../route.js";
import { count, counted } from "../../values/numbers.js";
import { brief } from "../../values/times.js";

const EVERY_MS = 2000;
const LISTED = 5000;
const COLUMNS = [
  { title: "Consumer" },
  { title: "Pending", class: "number" },
  { title: "Last read", class: "number" },
  { title: "Last delivery", class: "number wide" },
  { title: "", class: "acts" },
];

export function Consumers({ place }: { place: { stream: string; group: string } }) {
  const request = call("get", "/v1/streams/{stream}/groups/{group}/consumers", { params: { path: place, query: { limit: LISTED } } });
  const { data, problem } = usePolled((signal) => send(request, signal), EVERY_MS, JSON.stringify(place));
  const heldPlace = (name: string) => `${groupPlace(place.stream, place.group)}?consumer=${encodeURIComponent(name)}`;
  if (problem.value && !data.value) return <Refusal problem={problem.value} what="consumers" />;
  const consumers = data.value?.consumers.toSorted((a, b) => b.pending - a.pending);
  if (!consumers) return null;
  if (consumers.length === 0) return <p class="empty">No consumers. The first read creates a consumer.</p>;
  return (
    <>
      <Grid
        label="Consumers"
        class="consumers"
        columns={COLUMNS}
        rows={consumers}
        keyOf={({ name }) => name}
        onOpen={({ name }) => go(heldPlace(name))}
        cells={({ name, pending, idle_ms, inactive_ms }) => [
          <a href={heldPlace(name)} tabIndex={-1}>
            {name}
          </a>,
          <span class={pending ? "" : "soft"}>{count(pending)}</span>,
          <span class={pending && idle_ms > 60_000 ? "warn" : ""}>{brief(idle_ms)} ago</span>,
          inactive_ms == null ? <span class="soft">never</span> : `${brief(inactive_ms)} ago`,
          <ActButton act={deleteConsumer(place, name, pending)} class="small" />,
        ]}
      />
      {data.value?.next_cursor && <p class="soft">Showing the first {counted(consumers.length, "consumer")} by name.</p>}
    </>
  );
}
