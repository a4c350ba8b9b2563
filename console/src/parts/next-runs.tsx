/** Next runs: when a cron expression is due, while it is typed. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call, send } from "../gateway/calls.js";
import { Problem } from "../gateway/problem.js";
import { momentIn } from "../values/times.js";

const PAUSE_MS = 250; // of typing, before it is asked for
const COUNT = 3;

type Runs = { timesMs: number[] } | { fault: string } | undefined;

export function NextRuns({ cron, timeZone }: { cron: string; timeZone: string }) {
  const runs = useSignal<Runs>(undefined);
  useEffect(() => {
    runs.value = undefined;
    if (!cron.trim()) return undefined;
    const asking = new AbortController();
    const query = { cron: cron.trim(), time_zone: timeZone.trim() || "UTC", count: COUNT };
    const ask = async () => {
      try {
        runs.value = { timesMs: (await send(call("get", "/v1/schedule-times", { params: { query } }), asking.signal)).times_ms };
      } catch (error) {
        if (error instanceof Problem) runs.value = { fault: error.message };
      }
    };
    const timer = setTimeout(() => void ask(), PAUSE_MS);
    return () => (clearTimeout(timer), asking.abort());
  }, [cron, timeZone]);
  const { value } = runs;
  return (
    <p class="runs" role="status">
      <span>Next runs</span>
      {value === undefined && <span class="soft">{cron.trim() ? "…" : "Enter a cron expression."}</span>}
      {value && "fault" in value && <span class="warn">{value.fault}</span>}
      {value && "timesMs" in value && (value.timesMs.length === 0 ? <span class="soft">none</span> : <Times timesMs={value.timesMs} timeZone={timeZone.trim() || "UTC"} />)}
    </p>
  );
}

function Times({ timesMs, timeZone }: { timesMs: number[]; timeZone: string }) {
  return (
    <span>
      {timesMs.map((ms) => (
        <time title={new Date(ms).toISOString()}>{momentIn(ms, timeZone)}</time>
      ))}
    </span>
  );
}
