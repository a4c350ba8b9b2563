/** Pushes: of all groups, those that need somebody first. */
import { useRef } from "preact/hooks";
import { pausePush, unreadable } from "../acts/pushes.js";
import { call, send } from "../gateway/calls.js";
import { usePolled } from "../gateway/polling.js";
import type { PushSummary } from "../gateway/shapes.js";
import { ActButton } from "../parts/act.js";
import { useAddressed } from "../parts/addressed.js";
import { Grid } from "../parts/grid.js";
import { useKeys } from "../parts/keys.js";
import { Refusal } from "../parts/refusal.js";
import { Search } from "../parts/search.js";
import { go, groupPlace, patternPushPlace } from "../route.js";
import { count } from "../values/numbers.js";
import { spoken, worstFirst } from "../values/pushes.js";
import { moment } from "../values/times.js";
import { PushView } from "./group/push.js";

const EVERY_MS = 5000;
const LISTED = 1000;
const COLUMNS = [
  { title: "Group" },
  { title: "State" },
  { title: "Since", class: "wide" },
  { title: "URL", class: "mono wide" },
  { title: "Delivered", class: "number wide" },
  { title: "Failed", class: "number wide" },
  { title: "", class: "acts" },
];

export function Pushes() {
  const request = call("get", "/v1/pushes", { params: { query: { limit: LISTED } } });
  const { data, problem } = usePolled((signal) => send(request, signal), EVERY_MS, "");
  const words = useAddressed("find", "");
  const field = useRef<HTMLInputElement>(null);
  useKeys([{ key: "/", does: "search pushes", run: () => field.current?.focus() }]);
  const all = worstFirst(data.value?.pushes ?? []);
  const shown = all.filter((push) => `${nameOf(push)} ${push.state} ${push.url}`.includes(words.value));
  return (
    <section aria-label="Pushes">
      <header class="section">
        <h1>Pushes</h1>
        <span class="soft">{data.value && (data.value.next_cursor ? `first ${count(all.length)}` : count(all.length))}</span>
        <Search label="Group, state or URL" value={words} field={field} />
      </header>
      {problem.value && !data.value && <Refusal problem={problem.value} what="pushes" />}
      {data.value && shown.length === 0 && (
        <p class="empty">{all.length ? "No results." : "No pushes. To create a push, open a group and select its Push tab."}</p>
      )}
      {shown.length > 0 && (
        <Grid label="Pushes" class="pushes" columns={COLUMNS} rows={shown} keyOf={nameOf} cells={cellsOf} onOpen={(push) => go(placeOf(push))} />
      )}
    </section>
  );
}

function nameOf({ stream, group, match }: PushSummary): string {
  return `${stream} / ${group}${match === undefined ? "" : " (pattern)"}`;
}

function placeOf({ stream, group, match }: PushSummary): string {
  return match === undefined ? groupPlace(stream, group, "push") : patternPushPlace(match, group);
}

/** The push of a group over a pattern. */
export function PatternPush({ match, group }: { match: string; group: string }) {
  return (
    <>
      <header class="view">
        <h1>
          <a href="pushes">Pushes</a> / {match} / {group}
        </h1>
      </header>
      <PushView place={{ stream: match, group, match }} />
    </>
  );
}

function cellsOf(push: PushSummary) {
  const { kind, text } = spoken(push);
  const sinceMs = push.disabled_at_ms ?? push.failing_since_ms;
  return [
    <a href={placeOf(push)} tabIndex={-1}>
      {nameOf(push)}
    </a>,
    <span class={kind === "wait" ? "warn" : kind} title={text}>
      {push.state}
    </span>,
    sinceMs == null ? "–" : moment(sinceMs),
    <span title={push.url ?? ""}>{push.url ?? "–"}</span>,
    count(push.delivered_count),
    count(push.failed_count),
    <ActButton act={pausePush(push)} class="small" idle={unreadable(push)} />,
  ];
}
