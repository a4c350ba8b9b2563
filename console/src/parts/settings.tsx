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
  max_length: { label: "Max entries", hint: "Keeps the newest N entries. Empty: no limit", unset: "no limit", set: (value) => `newest ${value}` },
  max_age_ms: { label: "Max age", hint: "For example 90s, 12h, 7d. Empty: no limit", unset: "no limit" },
  idempotency_window_ms: { label: "Idempotency window", hint: "Default: 100s", unset: "100 s" },
  idempotency_max: { label: "Idempotency keys per producer", hint: "Default: 100", unset: "100" },
  archive: { label: "Trimmed entries", unset: "are removed", options: [["true", "stay readable in the archive"]] },
  local_bytes: { label: "Min bytes on disk", hint: "Newest entries that stay on disk when older entries are only in the bucket", unset: "no minimum" },
  key_field: { label: "Table key field", hint: "The latest entry for each value of this field is a row", unset: "not a table" },
  tombstone_field: { label: "Tombstone field", hint: "An entry with this field removes the row of its key. Default: deleted", unset: "deleted" },
  retain: { label: "Table retention", unset: "keep all entries", options: [["latest", "remove superseded entries"]] },
  compact_after_ms: { label: "Keep superseded entries for", hint: "Default: 1h", unset: "1h" },
  compact_unread: { label: "Superseded entries that groups have not read", unset: "keep", options: [["true", "remove"]] },
  archived_until_ms: { label: "Archived until", hint: "A date and time. Later superseded entries are not removed", unset: "no limit" },
  tombstone_ms: { label: "Keep tombstones for", hint: "Default: 1d", unset: "1d" },
};

export const POLICY: Labels<Policy> = {
  claim_idle_ms: {
    label: "Claim after",
    hint: "Reads claim entries that have been idle for this time, for example 30s",
    unset: "never",
    set: (value) => `${value} idle`,
  },
  max_deliveries: { label: "Max deliveries", hint: "Then the entry becomes a dead letter. Requires a dead-letter stream", unset: "no limit" },
  dead_letter_stream: { label: "Dead-letter stream", hint: "Name of a stream", unset: "none" },
  backoff_ms: { label: "Retry delays", hint: "Before the 2nd, 3rd … delivery, for example 1s 10s 1m", unset: "none", several: true },
  max_pending: { label: "Max pending per consumer", unset: "no limit" },
  on_disconnect: {
    label: "When a connection ends",
    unset: "as the client asks",
    options: [["release", "release its entries"], ["keep", "keep its entries pending"]],
  },
  filters: {
    label: "Filter",
    hint: 'Conditions as JSON, for example [{"exact": {"kind": "sale"}}]',
    unset: "none",
  },
  paused_until_ms: { label: "Paused until", hint: "A duration from now, for example 10m, or a date and time", unset: "not paused" },
  rate_per_s: { label: "Rate limit", hint: "Entries per second for the whole group", unset: "no limit", set: (value) => `${value}/s` },
  rate_burst: { label: "Burst", hint: "Entries delivered at once after a pause. Default: the rate limit", unset: "same as the rate limit" },
  key_field: { label: "Ordering key field", hint: "Entries with the same value are delivered in order", unset: "none" },
  key_pending_max: { label: "Max pending per key", hint: "Default: 1", unset: "1" },
  key_ahead_max: { label: "Max entries held back", hint: "Entries that wait for other entries of their key. Default: 10,000", unset: "10,000" },
  on_expiry: {
    label: "Expired entries",
    unset: "are settled",
    options: [["settle", "are settled"], ["dead_letter", "become dead letters"]],
  },
  fair_field: { label: "Fairness field", hint: "Values of this field take turns, so no value waits behind the backlog of another", unset: "none" },
  weights: { label: "Weights", hint: "Entries per turn, for example gold=3 silver=2. Default: 1", unset: "1 per value" },
  priority_field: { label: "Priority field", hint: "A digit from 0 to 9. Higher priorities are delivered first", unset: "none" },
  priority_age_ms: { label: "Raise priority after", hint: "A waiting entry rises by one priority in this time, for example 1m", unset: "never" },
  consumer_ttl_ms: { label: "Remove idle consumers after", hint: "Only consumers without pending entries, for example 1h", unset: "never" },
};

/** Return what is set, as facts. */
export function factsOf<Settings extends object>(labels: Labels<Settings>, settings: Settings): Fact[] {
  return each(labels).map(([name, { label, unset, set, options }]) => {
    const value = settings[name];
    const isSet = value != null && value !== false && !(Array.isArray(value) && value.length === 0);
    const chosen = options?.find(([option]) => option === String(value))?.[1];
    return { name: label.charAt(0).toLowerCase() + label.slice(1), value: isSet ? (chosen ?? shown(name, value, set)) : unset };
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
    if (value === undefined) return `${label.label}: “${given}” is not valid.`;
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
  if (given === "true" && options) return true;
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
