/** Ages: pending entries sorted by how long they have been idle. */
import type { Pending } from "../gateway/shapes.js";

export interface Band {
  label: string;
  fromMs: number;
  toMs: number;
  count: number;
}

const EDGES: [string, number][] = [
  ["under 1 s", 0], ["1–10 s", 1e3], ["10–60 s", 1e4], ["1–10 min", 6e4], ["10–60 min", 6e5], ["1–24 h", 36e5], ["over a day", 864e5],
];

/** Return the counts of entries by age. Released ones have none. */
export function bands(pending: readonly Pending[]): Band[] {
  const all = EDGES.map(([label, fromMs], at) => ({ label, fromMs, toMs: EDGES[at + 1]?.[1] ?? Infinity, count: 0 }));
  for (const { idle_ms: idleMs } of pending) {
    const band = idleMs == null ? undefined : all.findLast(({ fromMs }) => idleMs >= fromMs);
    if (band) band.count += 1;
  }
  return all;
}
