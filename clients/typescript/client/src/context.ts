/** Context: the parts of a client that its streams and groups use. */
import type { Line } from "./live/line.js";
import type { Rest } from "./wire/rest.js";

export interface Context {
  readonly rest: Rest;
  readonly line: Line;
  readonly producer: string;
  nextSub(): string;
  report(error: unknown, where: string): void;
}

/** Returns a unique name. */
export function randomName(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Returns the headers that make a request take effect once, however often it is sent. */
export function once({ producer }: Context, key = randomName()): Record<string, string> {
  return { "idempotency-key": key, "idempotency-producer": producer };
}
