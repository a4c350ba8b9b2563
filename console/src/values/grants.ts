/** Grants: the rights of keys, as people read and write them. */
import type { Grant } from "../gateway/shapes.js";

/** Return a right in words. */
export function wordsOf({ do: verbs, streams, groups, consumer, keys, create }: Grant): string {
  const words = [`${verbs.join(", ")} on ${streams.join(", ")}`];
  if (groups) words.push(`${groups.length === 1 ? "group" : "groups"} ${groups.join(", ")}`);
  if (consumer) words.push(`as ${consumer}`);
  if (keys) words.push(`rows ${keys.join(", ")}`);
  if (create) words.push("creates streams");
  return words.join("; ");
}

/** Return the names of a text that has commas between them. */
export function namesIn(text: string): string[] {
  return text.split(",").map((name) => name.trim()).filter(Boolean);
}

/** Return the id in an API key; undefined: it is another credential. */
export function idOf(key: string | undefined): string | undefined {
  return /^hg_([a-z0-9]+)_/.exec(key ?? "")?.[1];
}
