/** Context: what a client has that its streams and groups use. */
import type { Line } from "./live/line.js";
import type { Rest } from "./wire/rest.js";

export interface Context {
  readonly rest: Rest;
  readonly line: Line;
  readonly producer: string;
  nextSub(): string;
  report(error: unknown, where: string): void;
}

/** Return a name that nobody else has. */
export function randomName(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Return the headers by which a request is made once, however often it is sent. */
export function once({ producer }: Context, key = randomName()): Record<string, string> {
  return { "idempotency-key": key, "idempotency-producer": producer };
}
