/** Streams: all of them by name, a page at a time as far as somebody scrolls. */
import { useComputed } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { call, curlOf } from "../../gateway/calls.js";
import { asked } from "../../gateway/key.js";
import { changes, isSeen } from "../../gateway/polling.js";
import { denialOf, principal } from "../../gateway/principal.js";
import { ActButton } from "../../parts/act.js";
import { ClosedBadge, OwnBadge } from "../../parts/badge.js";
import { useAddressed } from "../../parts/addressed.js";
import { Shell } from "../../parts/copy.js";
import { Grid } from "../../parts/grid.js";
import { useKeys } from "../../parts/keys.js";
import { Refusal } from "../../parts/refusal.js";
import { Search } from "../../parts/search.js";
import { go, streamPlace } from "../../route.js";
import { createStream } from "../../acts/streams.js";
import { timeOf } from "../../values/ids.js";
import { count, counted, rate } from "../../values/numbers.js";
import { age } from "../../values/times.js";
import { StreamPages } from "./stream-pages.js";

const EVERY_MS = 3000;
const FIRST = call("post", "/v1/streams/{stream}/entries", { params: { path: { stream: "orders" } }, body: { fields: { sku: "42" } } });
const COLUMNS = [
  { title: "Stream" },
  { title: "Entries", class: "number" },
  { title: "Appended", class: "number wide" },
  { title: "Groups", class: "number wide" },
  { title: "Oldest", class: "number wide" },
  { title: "Newest", class: "number" },
];

export function Streams({ onPages }: { onPages: (pages: StreamPages) => void }) {
  const prefix = useAddressed("prefix", "");
  const field = useRef<HTMLInputElement>(null);
  const internal = useAddressed("internal", "", { choices: ["", "yes"] });
  const maySeeInternal = principal.value !== undefined && denialOf({ right: "admin" }) === undefined;
  const pages = useComputed(() => new StreamPages(prefix.value, internal.value === "yes")).value;
  useEffect(() => onPages(pages), [pages]);
  const isOn = isSeen.value && asked.value === undefined;
  useEffect(() => {
    if (!isOn) return undefined;
    void pages.refresh();
    const timer = setInterval(() => void pages.refresh(), EVERY_MS);
    return () => clearInterval(timer);
  }, [pages, isOn, changes.value]);
  useKeys([
    { key: "/", does: "search streams", run: () => field.current?.focus() },
    { key: "n", does: "create a stream", run: () => create.current?.querySelector("button")?.click() },
  ]);
  const create = useRef<HTMLSpanElement>(null);

  const rows = pages.streams.value;
  const isKnown = pages.isLoaded.value;
  return (
    <section aria-label="Streams">
      <header class="section">
        <h2>Streams</h2>
        <span class="soft">{isKnown && (pages.isWhole.value ? count(rows.length) : `first ${count(rows.length)}`)}</span>
        <Search label="Name prefix" value={prefix} field={field} />
        {maySeeInternal && (
          <label class="flag" title="Streams of the gateway itself: their names begin with __">
            <input type="checkbox" checked={internal.value === "yes"} onChange={({ currentTarget }) => (internal.value = currentTarget.checked ? "yes" : "")} />
            <span>Internal streams</span>
          </label>
        )}
        <span ref={create} class="acts">
          <ActButton act={createStream()} label="Create" />
        </span>
      </header>
      {pages.problem.value && <Refusal problem={pages.problem.value} what="streams" />}
      {isKnown && rows.length === 0 && (
        <div class="empty">
          <p>{prefix.value ? "No results." : "No streams. Append an entry to create a stream:"}</p>
          {!prefix.value && <Shell line={curlOf(FIRST)} />}
        </div>
      )}
      {rows.length > 0 && (
        <Grid
          label="Streams"
          class="streams"
          columns={COLUMNS}
          rows={rows}
          keyOf={(stream) => stream.name}
          onOpen={(stream) => go(streamPlace(stream.name))}
          onNear={() => void pages.more()}
          cells={(stream) => [
            <>
              <a href={streamPlace(stream.name)} tabIndex={-1} title={stream.name}>
                {stream.name}
              </a>{" "}
              <ClosedBadge closedAtMs={stream.closed_at_ms} /> <OwnBadge stream={stream.name} />
            </>,
            count(stream.length),
            <span class={stream.perSecond ? "" : "soft"}>{rate(stream.perSecond)}</span>,
            stream.groups ? count(stream.groups) : <span class="soft">0</span>,
            stream.first_id ? age(timeOf(stream.first_id)) : "–",
            stream.entries_added || stream.length ? age(timeOf(stream.last_id)) : "–",
          ]}
        />
      )}
      {rows.length > 0 && !pages.isWhole.value && <p class="soft">{counted(rows.length, "stream")} loaded. Scroll to load more.</p>}
    </section>
  );
}
