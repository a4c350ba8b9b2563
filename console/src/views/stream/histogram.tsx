/** Histogram: how many entries there are of which time. A range of it can be chosen, and then it shows that range. */
import type { ReadonlySignal } from "@preact/signals";
import { call, send } from "../../gateway/calls.js";
import { usePolled } from "../../gateway/polling.js";
import { Plot } from "../../parts/plot.js";
import { count, counted, short } from "../../values/numbers.js";
import { duration, moment } from "../../values/times.js";

const EVERY_MS = 5000;
const BUCKETS = 120;

export interface Span {
  fromMs: number;
  toMs: number;
}

interface Props {
  stream: string;
  span: ReadonlySignal<Span | undefined>;
  onSpan: (span: Span | undefined) => void;
}

export function Histogram({ stream, span, onSpan }: Props) {
  const { value } = span;
  const query = { buckets: BUCKETS, ...(value ? { start: `${value.fromMs}`, end: `${value.toMs}` } : {}) };
  const request = call("get", "/v1/streams/{stream}/histogram", { params: { path: { stream }, query } });
  const { data } = usePolled((signal) => send(request, signal), EVERY_MS, JSON.stringify([stream, value]));
  if (!data.value || (!value && data.value.counts.filter(Boolean).length < 2)) return null; // a single bar says nothing
  const { from_ms: fromMs, bucket_ms: bucketMs, counts } = data.value;
  const total = counts.reduce((sum, each) => sum + each, 0);
  const choose = (from: number, to: number) => onSpan({ fromMs: Math.floor(from), toMs: Math.ceil(to) });
  return (
    <Plot
      title={value ? `${moment(value.fromMs)} – ${moment(value.toMs)}` : "Entries by time"}
      timesMs={counts.map((_, at) => fromMs + at * bucketMs)}
      lines={[{ label: `in ${duration(bucketMs)}`, values: counts, colour: "line-1", format: count }]}
      format={short}
      height={84}
      onBrush={choose}
    >
      <span class="soft push wide">{value ? counted(total, "entry", "entries") : "drag to select a range"}</span>
      {value && (
        <button type="button" class="small" onClick={() => onSpan(undefined)}>
          All times
        </button>
      )}
    </Plot>
  );
}
