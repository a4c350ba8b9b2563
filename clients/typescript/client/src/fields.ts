/** Fields: the contents of entries. Values are text. Bytes are sent as base64. */
import type { EntryInput } from "./wire/types.js";

/** Values to append: text, numbers (sent as text), and bytes. */
export type Fields = Record<string, string | number | Uint8Array>;

/**
 * When groups deliver an entry: after a delay or from a unix time (ms) on, and for a duration or until a unix time
 * (ms).
 */
export type Timing = Pick<EntryInput, "delayMs" | "deliverAtMs" | "ttlMs" | "expiresAtMs">;

/** Returns fields as an entry to append. */
export function entryOf(fields: Fields, { delayMs, deliverAtMs, ttlMs, expiresAtMs }: Timing = {}): object {
  const texts: Record<string, string> = {};
  const base64: string[] = [];
  for (const [name, value] of Object.entries(fields)) {
    if (value instanceof Uint8Array) base64.push(name);
    texts[name] = value instanceof Uint8Array ? textOf(value) : String(value);
  }
  return { fields: texts, ...(base64.length && { base64 }), delayMs, deliverAtMs, ttlMs, expiresAtMs };
}

/** Returns the bytes of a field. For text, these are UTF-8. */
export function bytesOf(entry: { fields: Record<string, string>; base64?: string[] | null }, name: string): Uint8Array {
  const text = entry.fields[name] ?? "";
  if (!entry.base64?.includes(name)) return new TextEncoder().encode(text);
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

function textOf(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}
