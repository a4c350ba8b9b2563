/** Fields: what entries hold. Values are text; bytes travel as base64. */
import type { EntryInput } from "./wire/types.js";

/** Values to append: text, numbers as text, and bytes. */
export type Fields = Record<string, string | number | Uint8Array>;

/** Return fields as an entry to append. */
export function entryOf(fields: Fields): EntryInput {
  const texts: Record<string, string> = {};
  const base64: string[] = [];
  for (const [name, value] of Object.entries(fields)) {
    if (value instanceof Uint8Array) base64.push(name);
    texts[name] = value instanceof Uint8Array ? textOf(value) : String(value);
  }
  return base64.length ? { fields: texts, base64 } : { fields: texts };
}

/** Return the bytes of a field: of text its UTF-8. */
export function bytesOf(entry: { fields: Record<string, string>; base64?: string[] | null }, name: string): Uint8Array {
  const text = entry.fields[name] ?? "";
  if (!entry.base64?.includes(name)) return new TextEncoder().encode(text);
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

function textOf(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}
