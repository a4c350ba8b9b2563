/** Fields: what is in an entry, as pairs, and as people read it. */
import type { Entry } from "../gateway/shapes.js";

export type Pair = readonly [name: string, value: string];

/** Return the fields in their order, a name as often as it stands there. */
export function pairsOf(entry: Pick<Entry, "fields" | "pairs">): Pair[] {
  return (entry.pairs as Pair[] | null | undefined) ?? Object.entries(entry.fields);
}

/** Return a value by its name, the first one. */
export function valueOf(entry: Entry, name: string): string | undefined {
  return entry.fields[name];
}

/** Return JSON with line breaks, and any other text as it is. */
export function pretty(value: string): string {
  if (!/^\s*[[{]/.test(value)) return value;
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}

/** The origin of a dead letter, if an entry is one. */
export interface Origin {
  stream: string;
  id: string;
  group: string;
  deliveries: string;
  reason: string;
}

export function originOf(entry: Entry): Origin | undefined {
  const { _stream: stream, _id: id, _group: group, _deliveries: deliveries, _reason: reason = "–", _error: error } = entry.fields;
  if (stream === undefined || id === undefined || group === undefined) return undefined;
  const isCounted = deliveries && Number(deliveries) < GIVEN_UP;
  return { stream, id, group, deliveries: isCounted ? deliveries : "–", reason: error ? `${reason}: ${error}` : reason };
}

const ORIGIN = new Set(["_stream", "_id", "_group", "_deliveries", "_reason", "_error"]);
const GIVEN_UP = 1e15; // a fatal nack of an older gateway made the count the greatest there is, or left it empty

/** Return the fields that a dead letter had before it was one. */
export function payloadOf(entry: Entry): Pair[] {
  return pairsOf(entry).filter(([name]) => !ORIGIN.has(name));
}
