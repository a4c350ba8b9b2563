/** Stream: its entries, its groups, and how it is set. */
import { useEffect, useRef } from "preact/hooks";
import { appendEntry, trimStream } from "../../acts/streams.js";
import { call, send } from "../../gateway/calls.js";
import { usePolled } from "../../gateway/polling.js";
import type { Stream } from "../../gateway/shapes.js";
import { ActButton } from "../../parts/act.js";
import { ClosedBadge, OwnBadge } from "../../parts/badge.js";
import { type Fact, Facts } from "../../parts/facts.js";
import type { Pairs } from "../../parts/form.js";
import { useKeys } from "../../parts/keys.js";
import { lazy } from "../../parts/lazy.js";
import { Refusal } from "../../parts/refusal.js";
import { Tabs } from "../../parts/tabs.js";
import { begin } from "../../parts/act.js";
import { HOME, type StreamTab, streamPlace } from "../../route.js";
import { pairsOf } from "../../values/fields.js";
import { timeOf } from "../../values/ids.js";
import { bytes, count, rate, short } from "../../values/numbers.js";
import { age, moment } from "../../values/times.js";
import { Entries } from "./entries.js";
import { Groups } from "./groups.js";

const EVERY_MS = 1500;
const StreamTable = lazy(() => import("./table.js").then((its) => its.StreamTable));
const StreamSettings = lazy(() => import("./settings.js").then((its) => its.StreamSettings));

export function StreamView({ stream, tab }: { stream: string; tab: StreamTab }) {
  const request = call("get", "/v1/streams/{stream}", { params: { path: { stream } } });
  const { data, problem } = usePolled((signal) => send(request, signal), EVERY_MS, stream);
  const detail = data.value;
  const perSecond = useRate(detail?.entries_added, stream);
  const template = (detail?.last_entry ? pairsOf(detail.last_entry).filter(([name]) => !name.startsWith("_")) : []) as unknown as Pairs;
  const append = appendEntry(stream, template);
  const isMissing = problem.value?.isMissing && !detail;
  // An act begins with what the stream is (its last entry's fields, its length), and its entries go by its epoch.
  const unread = detail || problem.value ? undefined : "The stream is loading.";
  const noAppend = detail && detail.closed_at_ms !== null ? "The stream is closed." : unread;
  useKeys(noAppend ? [] : [{ key: "a", does: "append an entry", run: () => begin(append) }]);
  return (
    <>
      <header class="view">
        <h1>
          {stream} {detail && <ClosedBadge closedAtMs={detail.closed_at_ms} />} <OwnBadge stream={stream} />
        </h1>
        <span class="acts">
          <ActButton act={append} class="main" idle={noAppend} />
          <ActButton act={trimStream(stream, detail?.length ?? 0)} label="Trim" idle={unread} />
        </span>
      </header>
      {problem.value && !problem.value.isMissing && <Refusal problem={problem.value} what="the stream" />}
      {isMissing && (
        <p class="empty">
          This stream does not exist. Append an entry to create it. <a href={HOME}>All streams</a>
        </p>
      )}
      {detail && (
        <Facts
          facts={[
            { name: "entries", value: count(detail.length) },
            { name: "appended", value: rate(perSecond), title: `${count(detail.entries_added)} since the stream was created` },
            { name: "oldest", value: detail.first_id ? age(timeOf(detail.first_id)) : "–", title: detail.first_id ? moment(timeOf(detail.first_id)) : "" },
            { name: "newest", value: detail.length ? age(timeOf(detail.last_id)) : "–", title: moment(timeOf(detail.last_id)) },
            ...sizes(detail),
            ...archiveOf(detail),
            { name: "last id", value: <code>{detail.last_id}</code>, class: "wide" },
            { name: "chunks", value: short(detail.chunks), title: "blocks that store the entries", class: "wide" },
          ]}
        />
      )}
      {!isMissing && <Tabs
        label={stream}
        current={tab}
        tabs={[
          { name: "entries", title: "Entries", place: streamPlace(stream) },
          ...(detail?.config.key_field || tab === "table" ? [{ name: "table", title: "Table", place: streamPlace(stream, "table") }] : []),
          { name: "groups", title: "Groups", place: streamPlace(stream, "groups"), count: detail && count(detail.groups) },
          { name: "settings", title: "Settings", place: streamPlace(stream, "settings") },
        ]}
      />}
      {tab === "entries" && !unread && !isMissing && <Entries key={`${stream} ${detail?.epoch ?? ""}`} stream={stream} />}
      {tab === "table" && detail && <StreamTable key={`${stream} ${detail.epoch}`} detail={detail} />}
      {tab === "groups" && !isMissing && <Groups key={stream} stream={stream} />}
      {tab === "settings" && detail && <StreamSettings detail={detail} />}
    </>
  );
}

/** Return what the entries take, where an engine of the gateway keeps them. */
function sizes({ hot_bytes: hot, cold_bytes: cold }: Stream): Fact[] {
  if (hot === null) return [];
  return [
    { name: "hot", value: bytes(hot), title: "entries in memory" },
    { name: "cold", value: bytes(cold), title: "entries on disk only" },
  ];
}

/** Return what was trimmed and stays readable, if there is any. */
function archiveOf({ archived_count: archived, archived_first_id: first }: Stream): Fact[] {
  if (!archived || !first) return [];
  return [{ name: "archived", value: count(archived), title: `trimmed and still readable, from ${moment(timeOf(first))}` }];
}

/** Return the rate of a number that only grows. */
function useRate(value: number | undefined, of: string): number | undefined {
  const samples = useRef<{ atMs: number; value: number }[]>([]);
  useEffect(() => {
    samples.current = [];
  }, [of]);
  if (value === undefined) return undefined;
  const now = performance.now();
  const own = samples.current;
  if (own.at(-1)?.value !== value || now - own.at(-1)!.atMs > EVERY_MS / 2) own.push({ atMs: now, value });
  while (own.length > 2 && now - own[0]!.atMs > 6000) own.shift();
  const [first, last] = [own[0]!, own.at(-1)!];
  return last.atMs === first.atMs ? undefined : ((last.value - first.value) / (last.atMs - first.atMs)) * 1000;
}
