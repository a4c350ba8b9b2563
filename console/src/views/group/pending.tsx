/** Pending entries: how old they are, who holds them, and what is to become of them. */
import { useComputed, useSignal } from "@preact/signals";
import { ackEntries, claimEntries, nackEntries, releaseEntries } from "../../acts/groups.js";
import { call, send } from "../../gateway/calls.js";
import { usePolled } from "../../gateway/polling.js";
import type { Pending } from "../../gateway/shapes.js";
import { ActButton, begin } from "../../parts/act.js";
import { useAddressed } from "../../parts/addressed.js";
import { Grid } from "../../parts/grid.js";
import { useKeys } from "../../parts/keys.js";
import { Refusal } from "../../parts/refusal.js";
import { Search } from "../../parts/search.js";
import { type Band, bands } from "../../values/ages.js";
import { timeOf } from "../../values/ids.js";
import { count, counted } from "../../values/numbers.js";
import { brief, moment } from "../../values/times.js";

const EVERY_MS = 2000;
const LISTED = 10_000; // as many as the gateway answers at once by default
const COLUMNS = [
  { title: "Id", class: "mono" },
  { title: "Appended", class: "wide" },
  { title: "Consumer" },
  { title: "Idle", class: "number" },
  { title: "Tries", class: "number" },
  { title: "Last error", class: "wide" },
];

interface Props {
  place: { stream: string; group: string };
  total: number;
}

export function PendingEntries({ place, total }: Props) {
  const request = call("get", "/v1/streams/{stream}/groups/{group}/pending", { params: { path: place, query: { limit: LISTED } } });
  const { data, problem } = usePolled((signal) => send(request, signal), EVERY_MS, JSON.stringify(place));
  const holder = useAddressed("consumer", "");
  const band = useAddressed("idle", ""); // the least of a band, in ms
  const marks = useSignal<ReadonlySet<string>>(new Set());
  const all = data.value?.pending ?? [];
  const ages = bands(all);
  const chosen = ages.find(({ fromMs }) => String(fromMs) === band.value);
  const shown = all.filter(
    ({ consumer, idle_ms: idleMs }) =>
      (consumer ?? "").includes(holder.value) && (!chosen || (idleMs != null && idleMs >= chosen.fromMs && idleMs < chosen.toMs)),
  );
  const ids = useComputed(() => [...marks.value]);
  const consumers = [...new Set(all.flatMap(({ consumer }) => consumer ?? []))];
  const clear = () => (marks.value = new Set());
  const idle = ids.value.length ? undefined : "Select entries first.";
  const release = releaseEntries(place, ids.value, clear);
  useKeys([
    { key: "r", does: "release the selected entries", run: () => ids.value.length > 0 && begin(release) },
    { key: "Escape", does: "clear the selection", run: clear },
  ]);
  if (problem.value && !data.value) return <Refusal problem={problem.value} what="pending entries" />;
  return (
    <>
      {all.length > 0 && <Ages ages={ages} chosen={chosen} onChoose={({ fromMs }) => (band.value = String(fromMs) === band.value ? "" : String(fromMs))} />}
      <div class="tools sticky">
        <Search label="Consumer" value={holder} />
        <span class="soft">{ids.value.length ? `${count(ids.value.length)} selected` : ""}</span>
        <span class="acts push">
          <ActButton act={ackEntries(place, ids.value, clear)} label="Ack" idle={idle} />
          <ActButton act={nackEntries(place, ids.value, clear)} label="Nack" idle={idle} />
          <ActButton act={release} label="Release" idle={idle} />
          <ActButton act={claimEntries(place, ids.value, consumers, clear)} label="Claim" idle={idle} />
        </span>
      </div>
      {data.value && shown.length === 0 && <p class="empty">{all.length ? "No results." : "No pending entries."}</p>}
      {shown.length > 0 && (
        <Grid label="Pending entries" class="pending" columns={COLUMNS} rows={shown} keyOf={({ id }) => id} marks={marks} cells={(entry) => cellsOf(entry, all.find(({ id }) => id === entry.waits_for))} />
      )}
      {total > all.length && all.length >= LISTED && <p class="soft">Showing the first {counted(all.length, "entry", "entries")} of {count(total)}.</p>}
    </>
  );
}

/** Return why nobody has an entry. */
function whyNobody({ waits_for, delay_ms: delayMs }: Pending, before: Pending | undefined): string {
  if (delayMs) return `due in ${brief(delayMs)}`;
  if (!waits_for) return "released";
  const holder = before?.consumer ? `, held by ${before.consumer} for ${brief(before.idle_ms)}` : "";
  return `waits for ${waits_for} of the same key${holder}`;
}

function cellsOf(entry: Pending, before: Pending | undefined) {
  const { id, consumer, idle_ms: idleMs, deliveries, last_error } = entry;
  return [
    id,
    moment(timeOf(id)),
    consumer ?? <span class="soft">none: {whyNobody(entry, before)}</span>,
    <span class={(idleMs ?? 0) >= 60_000 ? "warn" : ""}>{brief(idleMs)}</span>,
    <span class={deliveries > 1 ? "warn" : "soft"}>{count(deliveries)}</span>,
    <span class="soft" title={last_error ?? ""}>
      {last_error}
    </span>,
  ];
}

interface AgesProps {
  ages: Band[];
  chosen: Band | undefined;
  onChoose: (band: Band) => void;
}

function Ages({ ages, chosen, onChoose }: AgesProps) {
  const largest = Math.max(1, ...ages.map((each) => each.count));
  return (
    <div class="ages" role="group" aria-label="Pending entries by idle time">
      {ages.map((band, at) => (band.count > 0 || band === chosen) && (
        <button type="button" aria-pressed={band === chosen} onClick={() => onChoose(band)}>
          <span class="bar">
            <i class={at >= 3 ? "old" : ""} style={{ height: `${(band.count / largest) * 100}%` }} />
          </span>
          <b>{count(band.count)}</b>
          <small>{band.label}</small>
        </button>
      ))}
    </div>
  );
}
