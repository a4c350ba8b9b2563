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
