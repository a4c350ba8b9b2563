/** Charts: the measurements of the gateway, plots with one cursor. Those without a value are left out. */
import type { History } from "../../gateway/shapes.js";
import { Plot } from "../../parts/plot.js";
import { bytes, percent, short } from "../../values/numbers.js";
import { brief } from "../../values/times.js";

type Format = (value: number | null | undefined) => string;

type Chart = [title: string, format: Format, lines: [series: string, label: string][]];

const CHARTS: Chart[] = [
  ["Entries/s", short, [["appended", "in"], ["delivered", "out"], ["acknowledged", "ack"]]],
  ["Requests/s", short, [["requests", "all"], ["refused", "refused"], ["failed", "failed"]]],
  ["Latency", milliseconds, [["request_ms_p99", "p99"], ["request_ms_p50", "p50"]]],
  ["Connections", short, [["connections_websocket", "ws"], ["connections_events", "sse"], ["connections_redis", "redis"], ["waiters", "wait"]]],
  ["Memory", bytes, [["process_bytes", "process"], ["memory_bytes", "streams"]]],
  ["Disk", bytes, [["journal_bytes", "all"], ["cold_bytes", "cold"], ["dead_bytes", "dead"]]],
  ["Delays", milliseconds, [["fsync_ms_p99", "fsync p99"], ["cold_read_ms_p99", "cold p99"], ["loop_delay_ms", "loop"]]],
  ["CPU", percent, [["cpu_percent", "all"]]],
  ["Cold entries", percent, [["cold_hit_percent", "found in memory"]]],
];

export function Charts({ history: { times_ms: times, series } }: { history: History }) {
  const isKnown = ([name]: [series: string, label: string]) => series[name]?.some((value) => value !== null);
  const charts = CHARTS.filter(([, , lines]) => lines.some(isKnown)); // one without a value would be an empty box
  if (charts.length === 0) return <p class="empty">No measurements yet. The gateway measures once per second.</p>;
  return (
    <div class="charts" role="group" aria-label="Plots" tabIndex={0}>
      {charts.map(([title, format, lines]) => (
        <Plot
          title={title}
          timesMs={times}
          format={format}
          together="gateway"
          lines={lines.map(([name, label], number) => ({
            label,
            values: series[name] ?? [],
            colour: name === "failed" ? "bad" : name === "refused" ? "line-3" : `line-${number + 1}`,
          })).filter(({ values }) => values.some((value) => value !== null))}
        />
      ))}
    </div>
  );
}

function milliseconds(value: number | null | undefined): string {
  return value != null && value >= 10_000 ? brief(value) : value == null ? "–" : `${short(value)} ms`;
}
