/** Names: snake_case on the wire, camelCase in programs. Names that users chose do not change. */

const known = new Map<string, string>();

function camelName(name: string): string {
  let camel = known.get(name);
  if (camel === undefined) {
    camel = name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
    known.set(name, camel);
  }
  return camel;
}

function snakeName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Members whose own members were named by users. */
const VERBATIM = new Set(["data", "fields", "filter", "filters", "headers", "schema", "weights"]);

function renamed(value: unknown, rename: (name: string) => string): unknown {
  if (Array.isArray(value)) return typeof value[0] === "object" ? value.map((item) => renamed(item, rename)) : value;
  if (value === null || typeof value !== "object") return value;
  const result: Record<string, unknown> = {};
  for (const [name, item] of Object.entries(value)) {
    result[rename(name)] = VERBATIM.has(name) ? item : renamed(item, rename);
  }
  return result;
}

/** Converts a value from the wire for programs. */
export function fromWire<T>(value: unknown): T {
  return renamed(value, camelName) as T;
}

/** Converts a value of a program for the wire. */
export function toWire(value: unknown): unknown {
  return renamed(value, snakeName);
}
