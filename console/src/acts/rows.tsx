/** Acts on the rows of a table. A row is changed as it was seen; otherwise one chooses what becomes of it. */
import { call } from "../gateway/calls.js";
import type { Problem } from "../gateway/problem.js";
import type { Row, Schemas } from "../gateway/shapes.js";
import type { Act } from "../parts/act.js";
import type { Pairs, Values } from "../parts/form.js";
import { entryOf, named } from "./streams.js";
import { fieldsOf, keyInPath, merged } from "../values/keys.js";
import { timeOf } from "../values/ids.js";
import { exactMoment } from "../values/times.js";

type Written = Schemas["RowWritten"];

/** The stream of a table, the field with the key of each row, and the one that removes a row. */
export interface Place {
  stream: string;
  keyField: string;
  tombstone: string;
}

/** Make a row, with names of fields to begin with. */
export function createRow(place: Place, names: string[]): Act<Written> {
  const { stream, keyField } = place;
  const pairs: Pairs = names.length ? names.map((name) => [name, ""]) : [["", ""]];
  const asked = (values: Values) => ({ key: values["key"] as string, pairs: values["pairs"] as Pairs });
  return {
    title: `New row in ${stream}`,
    verb: "Put",
    right: "append",
    stream,
    about: "It is appended as an entry, if no row has this key.",
    fields: [
      { name: "key", label: "Key", kind: "text", hint: `Value of ${keyField}` },
      { name: "pairs", label: "Fields", kind: "pairs", value: pairs },
    ],
    call: (values) => {
      const { key, pairs } = asked(values);
      return key ? put(stream, key, undefined, pairs) : "Enter a key.";
    },
    instead: (problem, values) => {
      const { key, pairs } = asked(values);
      return overwriteRow(place, key, pairs, problem);
    },
    done: ({ key, id }) => `Row ${key} is created with id ${id}.`,
  };
}

/** Change a row as it was seen. */
export function editRow(place: Place, row: Row): Act<Written> {
  return {
    title: `Edit row ${row.key}`,
    verb: "Save",
    right: "append",
    stream: place.stream,
    about: "The change is saved only if the row has not changed in the meantime.",
    fields: [{ name: "pairs", label: "Fields", kind: "pairs", value: fieldsOf(row, place.keyField) as unknown as Pairs }],
    call: ({ pairs }) => put(place.stream, row.key, row, pairs as Pairs, row.base64),
    instead: (problem, { pairs }) => overwriteRow(place, row.key, pairs as Pairs, problem, row),
    done: ({ key, id }) => `Row ${key} is saved with id ${id}.`,
  };
}

/** Choose what becomes of a row that is not as one has seen it; `seen` is that, if there was one. */
function overwriteRow(place: Place, key: string, given: Pairs, { row }: Problem, seen?: Row): Act<Written> | undefined {
  if (row === undefined) return undefined;
  const pairs = row && seen && !row.pairs && !seen.pairs ? merged(given, seen, row, place.keyField) : given;
  const base64 = (row ?? seen)?.base64;
  return {
    title: row ? `Row ${key} has changed` : `Row ${key} was removed`,
    verb: row ? "Overwrite" : "Create again",
    right: "append",
    stream: place.stream,
    about: row ? (
      <>
        <p>This is the current row. Cancel keeps it. Overwrite saves your changes; fields that you did not change keep their current values.</p>
        <Now row={row} place={place} mine={pairs} />
      </>
    ) : (
      "The row was removed in the meantime. Cancel leaves it removed."
    ),
    fields: [{ name: "pairs", label: "Your fields", kind: "pairs", value: pairs }],
    call: (values) => put(place.stream, key, row ?? undefined, values["pairs"] as Pairs, base64),
    instead: (problem, values) => overwriteRow(place, key, values["pairs"] as Pairs, problem, row ?? seen),
    done: ({ id }) => `Row ${key} is saved with id ${id}.`,
  };
}

/** Remove a row as it was seen. */
export function deleteRow(place: Place, row: Row, isSeen = true): Act<Written> {
  const { stream } = place;
  return {
    title: isSeen ? `Remove row ${row.key}` : `Row ${row.key} has changed`,
    verb: isSeen ? "Remove" : "Remove anyway",
    right: "append",
    stream,
    destroys: true,
    about: isSeen ? (
      "Appends an entry that removes the row. Earlier entries stay in the stream."
    ) : (
      <>
        <p>This is the current row. Cancel keeps it.</p>
        <Now row={row} place={place} />
      </>
    ),
    call: () =>
      call("delete", "/v1/streams/{stream}/table/{key}", {
        params: { path: { stream, key: keyInPath(row.key) }, header: { "If-Match": `"${row.id}"` } },
      }),
    instead: (problem) => (problem.row ? deleteRow(place, problem.row, false) : undefined),
    done: ({ key }) => `Row ${key} is removed.`,
  };
}

/** The row as it is; what differs from one's own fields is marked. */
function Now({ row, place, mine }: { row: Row; place: Place; mine?: Pairs }) {
  const own = mine && Object.fromEntries(mine);
  return (
    <section class="now" aria-label="Current row">
      <p class="soft">{exactMoment(timeOf(row.id))}, {row.id}</p>
      <dl class="values">
        {fieldsOf(row, place.keyField).map(([name, value]) => (
          <div class={own && own[name] !== value ? "differs" : undefined}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

/** Return the request that puts a row in the place of the one that was seen; undefined: of none. */
function put(stream: string, key: string, seen: Row | undefined, pairs: Pairs, base64: string[] = []) {
  const given = named(pairs);
  const packed = base64.filter((name) => given.some(([own]) => own === name));
  const body = { ...entryOf(given), ...(packed.length && { base64: packed }) };
  const header = seen ? { "If-Match": `"${seen.id}"` } : { "If-None-Match": "*" };
  return call("put", "/v1/streams/{stream}/table/{key}", { params: { path: { stream, key: keyInPath(key) }, header }, body });
}
