/** Ids: `ms-seq`. The first part is a time, in milliseconds of Unix time. */

/** Return the time in an id. */
export function timeOf(id: string): number {
  return Number(id.split("-", 1)[0]);
}

/** Compare two ids; negative if the first one is smaller. */
export function compareIds(a: string, b: string): number {
  const [aMs = 0, aSeq = 0] = a.split("-").map(Number);
  const [bMs = 0, bSeq = 0] = b.split("-").map(Number);
  return aMs - bMs || aSeq - bSeq;
}

/** Return the id that a text names: an id, a time of day, a date with a time, or how long ago. */
export function idFrom(text: string, nowMs: number): string | undefined {
  const trimmed = text.trim();
  if (/^\d{9,19}(-\d{1,19})?$/.test(trimmed)) return trimmed;
  const ago = /^(\d+(?:\.\d+)?)\s*(s|m|h|d)(?:\s+ago)?$/.exec(trimmed);
  if (ago) return String(Math.round(nowMs - Number(ago[1]) * { s: 1e3, m: 6e4, h: 36e5, d: 864e5 }[ago[2] as "s"]));
  const clock = /^(\d{1,2}):(\d{2})(?::(\d{2}))?$/.exec(trimmed);
  if (clock) {
    const day = new Date(nowMs).setHours(Number(clock[1]), Number(clock[2]), Number(clock[3] ?? 0), 0);
    return String(day);
  }
  const date = /^\d{4}-\d{2}-\d{2}/.test(trimmed) ? Date.parse(trimmed) : Number.NaN;
  return Number.isNaN(date) ? undefined : String(date);
}
