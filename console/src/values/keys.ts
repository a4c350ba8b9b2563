/** Keys of rows: the value of the key field; one that is no text is written as `base64:` and base64 text. */
import type { Entry } from "../gateway/shapes.js";
import { type Pair, pairsOf } from "./fields.js";

const BASE64 = "base64:";

/** Return the value of the key field; undefined: it is no text. */
export function valueOfKey(key: string): string | undefined {
  if (!key.startsWith(BASE64)) return key;
  const bytes = Uint8Array.from(atob(key.slice(BASE64.length)), (letter) => letter.charCodeAt(0));
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** Return a key as it stands in a path, where dots alone would be a way up. */
export function keyInPath(key: string): string {
  return /^\.\.?$/.test(key) ? BASE64 + btoa(key) : key;
}

/** Return the fields of a row besides its key. */
export function fieldsOf(row: Entry, keyField: string): Pair[] {
  return pairsOf(row).filter(([name]) => name !== keyField);
}

/** Return the fields that somebody has given for a row as it was seen, on top of what it has become. */
export function merged(given: readonly Pair[], seen: Entry, now: Entry, keyField: string): [string, string][] {
  const values = new Map(fieldsOf(now, keyField));
  for (const [name] of fieldsOf(seen, keyField)) if (!given.some(([own]) => own === name)) values.delete(name);
  for (const [name, value] of given) if (seen.fields[name] !== value) values.set(name, value);
  return [...values];
}
