/** Table: the rows of a stream by key, the first ones or those whose keys begin with a text; and one with its history. */
import { useComputed, useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { createRow, type Place } from "../../acts/rows.js";
import { call, send } from "../../gateway/calls.js";
import { usePolled } from "../../gateway/polling.js";
import type { Row, Stream } from "../../gateway/shapes.js";
import { ActButton, begin } from "../../parts/act.js";
import { useAddressed } from "../../parts/addressed.js";
import { FieldsInLine } from "../../parts/fields-in-line.js";
import { Grid } from "../../parts/grid.js";
import { useKeys } from "../../parts/keys.js";
import { Refusal } from "../../parts/refusal.js";
import { Search } from "../../parts/search.js";
import { streamPlace } from "../../route.js";
import { timeOf } from "../../values/ids.js";
import { fieldsOf } from "../../values/keys.js";
import { count } from "../../values/numbers.js";
import { exactMoment } from "../../values/times.js";
import { RowPanel } from "./row-panel.js";

const EVERY_MS = 2000;
const ROWS = 100;
const ROWS_MAX = 1000; // more are found by their keys

const COLUMNS = [{ title: "Key", class: "mono" }, { title: "Time", class: "wide" }, { title: "Id", class: "mono soft wide" }, { title: "Fields", class: "mono payload" }];

export function StreamTable({ detail }: { detail: Stream }) {
  const { name: stream, config } = detail;
  if (config.key_field == null) {
    return (
      <p class="empty">
        This stream is not a table. To make it a table, set a table key field in its <a href={streamPlace(stream, "settings")}>settings</a>.
      </p>
    );
  }
  const place = { stream, keyField: config.key_field, tombstone: config.tombstone_field ?? "deleted" };
  return <Rows key={config.key_field} place={place} isClosed={detail.closed_at_ms !== null} />;
}

function Rows({ place, isClosed }: { place: Place; isClosed: boolean }) {
  const { stream, keyField } = place;
  const prefix = useAddressed("prefix", "");
  const opened = useAddressed("row", "");
  const limit = useSignal(ROWS);
  const field = useRef<HTMLInputElement>(null);
  const query = useComputed(() => ({ prefix: prefix.value, limit: limit.value }));
  const ask = (signal: AbortSignal) =>
    send(call("get", "/v1/streams/{stream}/table", { params: { path: { stream }, query: query.peek() } }), signal);
  const { data, problem } = usePolled(ask, EVERY_MS, JSON.stringify([stream, query.value]));
  const page = useLast(data.value, prefix.value);
  const rows = page?.rows ?? [];
  const names = rows[0] ? [...new Set(fieldsOf(rows[0], keyField).map(([name]) => name))] : [];
  const create = createRow(place, names);
  const idle = isClosed ? "The stream is closed." : undefined;
  useKeys([
    { key: "/", does: "search keys", run: () => field.current?.focus() },
    ...(idle ? [] : [{ key: "n", does: "new row", run: () => begin(create) }]),
    { key: "Escape", does: "close the row", run: () => (opened.value = "") },
  ]);
  return (
    <>
      <div class="tools">
        <Search label="Key prefix" value={prefix} field={field} />
        <ActButton act={create} label="New row" class="push" idle={idle} />
      </div>
      {problem.value && <Refusal problem={problem.value} what="rows" />}
      <div class={opened.value ? "split opened" : "split"}>
        <div>
          {rows.length > 0 && (
            <Grid
              label="Rows"
              class="table"
              columns={COLUMNS}
              rows={rows}
              keyOf={(row) => row.key}
              opened={opened.value}
              onOpen={(row) => (opened.value = row.key)}
              onNear={page?.next_after_key != null && limit.value < ROWS_MAX ? () => (limit.value = Math.min(ROWS_MAX, rows.length + ROWS)) : undefined}
              cells={(row) => cellsOf(row, keyField)}
            />
          )}
          <p class="soft end" role="status">
            {page && said(rows.length, prefix.value, page.next_after_key != null)}
          </p>
        </div>
        {opened.value && <RowPanel key={opened.value} place={place} rowKey={opened.value} idle={idle} onClose={() => (opened.value = "")} />}
      </div>
    </>
  );
}

/** Return an answer, or the last one for the same prefix while the next one is on its way. */
function useLast<T>(answer: T | undefined, prefix: string): T | undefined {
  const last = useRef<{ prefix: string; answer: T } | undefined>(undefined);
  if (answer !== undefined) last.current = { prefix, answer };
  return last.current?.prefix === prefix ? last.current.answer : undefined;
}

function said(rows: number, prefix: string, isMore: boolean): string {
  if (isMore) return `Showing the first ${count(rows)} rows. Search by key prefix to find others.`;
  if (rows) return "No more rows.";
  return prefix ? "No results." : "No rows. An entry with the key field creates a row.";
}

function cellsOf(row: Row, keyField: string) {
  return [
    <bdi>{row.key}</bdi>,
    <time title={new Date(timeOf(row.id)).toISOString()}>{exactMoment(timeOf(row.id))}</time>,
    row.id,
    <FieldsInLine pairs={fieldsOf(row, keyField)} />,
  ];
}
