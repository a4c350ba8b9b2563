/** Row panel: a row as it is, what may be done to it, and what it was before. */
import { useEffect, useMemo } from "preact/hooks";
import { deleteRow, editRow, type Place } from "../../acts/rows.js";
import { call, send } from "../../gateway/calls.js";
import { usePolled } from "../../gateway/polling.js";
import { ActButton } from "../../parts/act.js";
import { FieldsInLine } from "../../parts/fields-in-line.js";
import { FieldsList } from "../../parts/fields-list.js";
import { Refusal } from "../../parts/refusal.js";
import { streamPlace } from "../../route.js";
import { timeOf } from "../../values/ids.js";
import { fieldsOf, keyInPath, valueOfKey } from "../../values/keys.js";
import { age, exactMoment } from "../../values/times.js";
import { EntryList } from "./entry-list.js";

const EVERY_MS = 2000;

interface Props {
  place: Place;
  rowKey: string;
  /** Why it cannot be changed. */
  idle: string | undefined;
  onClose: () => void;
}

export function RowPanel({ place, rowKey, idle, onClose }: Props) {
  const { stream, keyField } = place;
  const request = call("get", "/v1/streams/{stream}/table/{key}", { params: { path: { stream, key: keyInPath(rowKey) } } });
  const { data, problem } = usePolled((signal) => send(request, signal), EVERY_MS, JSON.stringify([stream, rowKey]));
  const isGone = problem.value?.isMissing ?? false;
  const row = isGone ? undefined : data.value;
  const ms = row && timeOf(row.id);
  return (
    <aside class="panel record" aria-label={`Row ${rowKey}`}>
      <header>
        <h2 class="mono">{rowKey}</h2>
        <button type="button" class="icon" aria-label="Close" onClick={onClose}>
          ×
        </button>
      </header>
      {problem.value && !isGone && <Refusal problem={problem.value} what="the row" />}
      {isGone && <p class="soft">This row does not exist.</p>}
      {ms !== undefined && (
        <p class="soft">
          {exactMoment(ms)}, {age(ms)} {Date.now() - ms < 1000 ? "" : "ago"}
        </p>
      )}
      {row && (
        <>
          <FieldsList entry={row} pairs={fieldsOf(row, keyField)} />
          <footer class="acts">
            <ActButton act={editRow(place, row)} label="Edit" class="small" idle={idle ?? (row.names_base64 ? "The names of its fields are not text." : undefined)} />
            <ActButton act={deleteRow(place, row)} label="Remove" class="small" idle={idle} />
          </footer>
        </>
      )}
      <History key={row?.id ?? String(isGone)} place={place} rowKey={rowKey} />
    </aside>
  );
}

/** What a row was: the entries of its key, the newest first. They are read again when there is a newer one. */
function History({ place, rowKey }: { place: Place; rowKey: string }) {
  const { stream, keyField, tombstone } = place;
  const list = useMemo(() => {
    const value = valueOfKey(rowKey);
    return value === undefined ? undefined : new EntryList(stream, { order: "desc", filter: { exact: { [keyField]: value } } });
  }, []);
  useEffect(() => (void list?.more(), () => list?.close()), [list]);
  if (!list) return <p class="soft">Cannot show the history: the key is not text.</p>;
  const { entries, isBusy, isWhole, problem } = list;
  return (
    <section class="history" aria-label="History">
      <h3>History</h3>
      {problem.value && <Refusal problem={problem.value} what="the history" />}
      <ol>
        {entries.value.map((entry) => (
          <li>
            <a href={`${streamPlace(stream)}?entry=${entry.id}`} title={entry.id}>
              <time>{exactMoment(timeOf(entry.id))}</time>
            </a>{" "}
            {Object.hasOwn(entry.fields, tombstone) ? <span class="bad">removed</span> : <FieldsInLine pairs={fieldsOf(entry, keyField)} />}
          </li>
        ))}
      </ol>
      {isBusy.value && <p class="soft">Loading …</p>}
      {!isBusy.value && !isWhole.value && (
        <button type="button" class="small" onClick={() => void list.more()}>
          Load more
        </button>
      )}
    </section>
  );
}
