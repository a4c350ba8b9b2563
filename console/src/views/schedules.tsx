/** Schedules: what is appended by itself, when next, and what came of it. */
import { useRef } from "preact/hooks";
import { deleteSchedule, pauseSchedule, runSchedule, setSchedule } from "../acts/schedules.js";
import { call, send } from "../gateway/calls.js";
import { usePolled } from "../gateway/polling.js";
import type { Schedule } from "../gateway/shapes.js";
import { ActButton } from "../parts/act.js";
import { useAddressed } from "../parts/addressed.js";
import { Grid } from "../parts/grid.js";
import { useKeys } from "../parts/keys.js";
import { Refusal } from "../parts/refusal.js";
import { Search } from "../parts/search.js";
import { streamPlace } from "../route.js";
import { count } from "../values/numbers.js";
import { brief, moment, momentIn } from "../values/times.js";

const EVERY_MS = 5000;
const LISTED = 1000;
const COLUMNS = [
  { title: "Schedule", class: "mono" },
  { title: "Stream", class: "wide" },
  { title: "Cron", class: "mono wide" },
  { title: "Time zone", class: "wide" },
  { title: "Next run" },
  { title: "Last run", class: "wide roomy" },
  { title: "Missed", class: "number wide roomy" },
  { title: "State" },
  { title: "", class: "acts" },
];

export function Schedules() {
  const request = call("get", "/v1/schedules", { params: { query: { limit: LISTED } } });
  const { data, problem } = usePolled((signal) => send(request, signal), EVERY_MS, "");
  const words = useAddressed("find", "");
  const field = useRef<HTMLInputElement>(null);
  useKeys([{ key: "/", does: "search schedules", run: () => field.current?.focus() }]);
  const all = data.value?.schedules ?? [];
  const shown = all.filter(({ name, stream }) => `${name} ${stream}`.includes(words.value));
  return (
    <section aria-label="Schedules">
      <header class="section">
        <h1>Schedules</h1>
        <span class="soft">{data.value && (data.value.next_cursor ? `first ${count(all.length)}` : count(all.length))}</span>
        <Search label="Schedule or stream" value={words} field={field} />
        <ActButton act={setSchedule()} label="Create a schedule" />
      </header>
      {problem.value && !data.value && <Refusal problem={problem.value} what="schedules" />}
      {data.value && shown.length === 0 && <p class="empty">{all.length ? "No results." : "No schedules. A schedule appends an entry to a stream at the times of a cron expression."}</p>}
      {shown.length > 0 && (
        <Grid label="Schedules" class="schedules" columns={COLUMNS} rows={shown} keyOf={({ name }) => name} cells={cellsOf} phoneHeight={96} />
      )}
    </section>
  );
}

function cellsOf(schedule: Schedule) {
  const { name, stream, cron, time_zone, next_due_ms, last_due_ms, last_id, missed_count } = schedule;
  return [
    name,
    <a href={streamPlace(stream)}>{stream}</a>,
    <span title={cron}>{cron}</span>,
    time_zone,
    next_due_ms == null ? "–" : <time title={momentIn(next_due_ms, time_zone)}>in {brief(Math.max(next_due_ms - Date.now(), 0))}</time>,
    last_due_ms == null ? "–" : <time title={`${momentIn(last_due_ms, time_zone)}${last_id ? `, entry ${last_id}` : ""}`}>{moment(last_due_ms)}</time>,
    count(missed_count),
    <State schedule={schedule} />,
    <>
      <ActButton act={runSchedule(schedule)} class="small" />
      <ActButton act={setSchedule(schedule)} label="Edit" class="small" idle={schedule.names_base64 ? "The names of its fields are not text." : undefined} />
      <ActButton act={pauseSchedule(schedule)} class="small" />
      <ActButton act={deleteSchedule(schedule)} class="small" />
    </>,
  ];
}

function State({ schedule: { paused, problem } }: { schedule: Schedule }) {
  if (paused) return <span class="soft">paused</span>;
  if (problem) return <span class="warn" title={`${moment(problem.at_ms)}: ${problem.detail}`}>{problem.code.replaceAll("_", " ")}</span>;
  return <span class="good">active</span>;
}
