/** Settings: the configuration of a stream and the policy of a group, as facts and as fields of a form. */
import type { ComponentChildren } from "preact";
import type { Policy, Schemas } from "../gateway/shapes.js";
import { streamPlace } from "../route.js";
import { count, wholeNumber } from "../values/numbers.js";
import { duration, millisecondsFrom, moment, momentFrom, written } from "../values/times.js";
import type { Fact } from "./facts.js";
import type { Field, Values } from "./form.js";

export type Config = Schemas["StreamConfig"];

/** What people read of a setting. The kind of its value is in its name: `_until_ms`, `_ms`, `_stream`, `_field`, `filters`, `weights`, or else a number. */
interface Label {
  label: string;
  hint?: string;
  /** What holds where it is not set. */
  unset: string;
  /** Says the value where it is set. */
  set?: (value: string) => string;
  /** It is a choice. */
  options?: [value: string, label: string][];
  /** It has several values. */
  several?: true;
}

type Labels<Settings> = { [Name in keyof Required<Settings>]: Label };

export const CONFIG: Labels<Config> = {
  max_length: { label: "Entries kept", hint: "The newest so many; empty: all.", unset: "all", set: (value) => `the newest ${value}` },
  max_age_ms: { label: "Age kept", hint: "Such as 90s, 12h, 7d; empty: any age.", unset: "any" },
  idempotency_window_ms: { label: "Idempotency keys protect for", hint: "100 s, if it is empty.", unset: "100 s" },
  idempotency_max: { label: "Keys of a producer", hint: "100, if it is empty.", unset: "100" },
  archive: { label: "What is trimmed", unset: "is gone", options: [["true", "stays readable as the archive"]] },
  local_bytes: { label: "Bytes on the disk", hint: "Of its newest entries, where others leave the disk for the bucket", unset: "what was read last" },
  key_field: { label: "Table by the field", hint: "The latest entry of each value of it is a row", unset: "no table" },
  tombstone_field: { label: "Rows are removed by the field", hint: "An entry that has it removes the row of its key; `deleted`, if it is empty", unset: "deleted" },
  retain: { label: "Entries of a table", unset: "all of them stay", options: [["latest", "superseded ones are removed"]] },
  compact_after_ms: { label: "Superseded entries stay for", hint: "1h, if it is empty", unset: "1h" },
  compact_unread: { label: "Superseded entries that groups have still to read", unset: "stay", options: [["true", "are removed, too"]] },
  archived_until_ms: { label: "Archived until", hint: "A unix time in ms; later entries are not removed", unset: "no matter" },
  tombstone_ms: { label: "Entries that removed a row stay for", hint: "1d, if it is empty", unset: "1d" },
};

export const POLICY: Labels<Policy> = {
  claim_idle_ms: {
    label: "Take over after",
    hint: "Reads take entries that others have held so long: 30s",
    unset: "never by itself",
    set: (value) => `${value} idle`,
  },
  max_deliveries: { label: "Deliveries at most", hint: "Then it is a dead letter; needs a stream for them", unset: "any number" },
  dead_letter_stream: { label: "Dead letters go to", hint: "The name of a stream", unset: "nowhere" },
  backoff_ms: { label: "Delay between deliveries", hint: "Before the 2nd, 3rd …: 1s 10s 1m", unset: "none", several: true },
  max_pending: { label: "Unacknowledged at most", hint: "Of each consumer", unset: "any number", set: (value) => `${value} a consumer` },
  on_disconnect: {
    label: "When a connection ends",
    unset: "as it asks",
    options: [["release", "what it holds is released"], ["keep", "what it holds stays with it"]],
  },
  filters: {
    label: "Only entries with",
    hint: 'Conditions as JSON: [{"exact": {"kind": "sale"}}]',
    unset: "any fields",
  },
  paused_until_ms: { label: "Paused until", hint: "For so long from now, such as 10m; or a time", unset: "not paused" },
  rate_per_s: { label: "Entries a second at most", hint: "Of the whole group", unset: "any number", set: (value) => `${value} a second` },
  rate_burst: { label: "At once after a rest", hint: "As many as in a second, if it is empty", unset: "as many as in a second" },
  key_field: { label: "In order by the field", hint: "Entries with the same value of it come one after the other", unset: "no order by key" },
  key_pending_max: { label: "Pending of a key at most", hint: "1, if it is empty", unset: "1" },
  key_ahead_max: { label: "Held back at most", hint: "Entries that wait for others of their key; 10,000, if it is empty", unset: "10,000" },
  on_expiry: {
    label: "When a deadline is over",
    unset: "entries are settled",
    options: [["settle", "entries are settled"], ["dead_letter", "entries become dead letters"]],
  },
  fair_field: { label: "Fair by the field", hint: "Values of it take turns: nobody waits behind the backlog of another", unset: "by id" },
  weights: { label: "Weights", hint: "Entries of a value in its turn: gold=3 silver=2; 1 of all others", unset: "1 of each" },
  priority_field: { label: "Priority by the field", hint: "A digit, 0 to 9: higher ones come first", unset: "no priorities" },
  priority_age_ms: { label: "Rises by one after", hint: "What waits rises by one priority in so long: 1m", unset: "never" },
  consumer_ttl_ms: { label: "Idle consumers go after", hint: "If they hold nothing: 1h", unset: "never" },
};

/** Return what is set, as facts. */
export function factsOf<Settings extends object>(labels: Labels<Settings>, settings: Settings): Fact[] {
  return each(labels).map(([name, { label, unset, set }]) => {
    const value = settings[name];
    const isSet = value != null && value !== false && !(Array.isArray(value) && value.length === 0);
    return { name: label.charAt(0).toLowerCase() + label.slice(1), value: isSet ? shown(name, value, set) : unset };
  });
}

/** Return fields in which settings are changed. */
export function fieldsOf<Settings extends object>(labels: Labels<Settings>, settings: Settings): Field[] {
  return each(labels).map(([name, { label, hint, unset, options }]) => {
    const field = { name, label, hint, value: typed(name, settings[name]) };
    return options ? { ...field, kind: "choice", options: [["", unset], ...options] } : { ...field, kind: "text" };
  });
}

/** Return the settings that were changed, null for those that were removed; or what is wrong. */
export function changesOf<Settings extends object>(labels: Labels<Settings>, values: Values, old: Settings): Settings | string {
  const changes: Record<string, unknown> = {};
  for (const [name, label] of each(labels)) {
    const given = (values[name] as string).trim();
    const value = given ? valueOf(name, label, given) : null;
    if (value === undefined) return `${label.label}: ${given} is none.`;
    if (given !== typed(name, old[name])) changes[name] = value;
  }
  return changes as Settings;
}

function each<Settings>(labels: Labels<Settings>): [keyof Settings & string, Label][] {
  return Object.entries(labels) as [keyof Settings & string, Label][];
}

function shown(name: string, value: unknown, set: Label["set"]): ComponentChildren {
  if (name === "weights") return writtenWeights(value);
  if (name === "filters") return <code>{JSON.stringify(value)}</code>;
  if (value === true) return "stays readable";
  if (name.endsWith("_until_ms")) return moment(value as number);
  if (name.endsWith("_stream")) return <a href={streamPlace(value as string)}>{value as string}</a>;
  const parts = (Array.isArray(value) ? value : [value]) as (number | string)[];
  const text = parts.map((part) => (typeof part === "string" ? part : name.endsWith("_ms") ? duration(part) : count(part))).join(", ");
  return set ? set(text) : text;
}

/** Return a value as it is typed. */
function typed(name: string, value: unknown): string {
  if (value == null || value === false) return "";
  if (name === "filters") return JSON.stringify(value);
  if (name === "weights") return writtenWeights(value);
  if (name.endsWith("_until_ms")) return new Date(value as number).toISOString();
  const parts = (Array.isArray(value) ? value : [value]) as (number | string)[];
  return parts.map((part) => (typeof part === "number" && name.endsWith("_ms") ? written(part) : String(part))).join(" ");
}

function valueOf(name: string, { options, several }: Label, given: string): unknown {
  if (name === "archive") return given === "true";
  if (options || name.endsWith("_stream") || name.endsWith("_field")) return given;
  if (name === "filters") return listFrom(given);
  if (name === "weights") return weightsFrom(given);
  if (name.endsWith("_until_ms")) return momentFrom(given);
  const read = name.endsWith("_ms") ? millisecondsFrom : wholeNumber;
  if (!several) return read(given);
  const parts = given.split(/[\s,]+/).map(read);
  return parts.includes(undefined) ? undefined : parts;
}

function writtenWeights(value: unknown): string {
  return Object.entries(value as Record<string, number>).map(([name, weight]) => `${name}=${weight}`).join(" ");
}

function weightsFrom(given: string): Record<string, number> | undefined {
  const pairs = given.split(/[\s,]+/).map((part) => /^(.*)=(\d+)$/.exec(part));
  return pairs.includes(null) ? undefined : Object.fromEntries(pairs.map((pair) => [pair![1], Number(pair![2])]));
}

function listFrom(json: string): unknown[] | undefined {
  try {
    const value = JSON.parse(json);
    return Array.isArray(value) ? value : [value];
  } catch {
    return undefined;
  }
}
