/** Times: instants and durations, as people read and write them. */

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short" });
const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Return a time of day; with the day, unless that is today. */
export function moment(ms: number, nowMs = Date.now()): string {
  const isToday = new Date(ms).toDateString() === new Date(nowMs).toDateString();
  return isToday ? clock.format(ms) : `${day.format(ms)} ${clock.format(ms)}`;
}

/** Return a day of the week with its date and time, in a time zone; in UTC if the browser does not know that. */
export function momentIn(ms: number, timeZone: string): string {
  const parts = { weekday: "short", year: "numeric", month: "short", day: "2-digit", hour: "2-digit", minute: "2-digit", timeZoneName: "short" } as const;
  try {
    return new Intl.DateTimeFormat("en-GB", { ...parts, timeZone }).format(ms);
  } catch {
    return new Intl.DateTimeFormat("en-GB", { ...parts, timeZone: "UTC" }).format(ms);
  }
}

/** Return a time of day with its milliseconds. */
export function exactMoment(ms: number, nowMs = Date.now()): string {
  return `${moment(ms, nowMs)}.${String(Math.floor(ms % 1000)).padStart(3, "0")}`;
}

/** Return a duration, in its two largest units at most. */
export function duration(ms: number | null | undefined): string {
  if (ms == null) return "–";
  if (ms < 1000) return `${Math.round(ms * (ms < 10 ? 10 : 1)) / (ms < 10 ? 10 : 1)} ms`;
  if (ms < UNITS.m) return `${Math.round(ms / 100) / 10} s`;
  if (ms < UNITS.h) return two(ms, UNITS.m, "min", UNITS.s, "s");
  if (ms < UNITS.d) return two(ms, UNITS.h, "h", UNITS.m, "min");
  return two(ms, UNITS.d, "d", UNITS.h, "h");
}

/** Return the time since a moment. */
export function age(ms: number, nowMs = Date.now()): string {
  const passed = nowMs - ms;
  return passed < 1000 ? "now" : brief(passed);
}

/** Return the time until a moment, or since it. */
export function distance(ms: number, nowMs = Date.now()): string {
  return ms > nowMs ? `in ${brief(ms - nowMs)}` : `${brief(nowMs - ms)} ago`;
}

/** Return a duration in its largest unit only: for columns. */
export function brief(ms: number | null | undefined): string {
  if (ms == null) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < UNITS.m) return `${Math.floor(ms / 1000)} s`;
  if (ms < UNITS.h) return `${Math.floor(ms / UNITS.m)} min`;
  if (ms < 2 * UNITS.d) return `${Math.floor(ms / UNITS.h)} h`;
  return `${Math.floor(ms / UNITS.d)} d`;
}

/** Return the milliseconds that a text means: `90s`, `5m`, `1.5h`, `7d`; undefined if it means none. */
export function millisecondsFrom(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)?$/.exec(text.trim());
  if (!match) return undefined;
  const unit = match[2] === "min" ? "m" : (match[2] ?? "ms");
  return Math.round(Number(match[1]) * UNITS[unit as keyof typeof UNITS]);
}

/** Return the time (unix ms) that a text means: a duration from now, or a date and time; undefined if it means none. */
export function momentFrom(text: string, nowMs = Date.now()): number | undefined {
  const fromNowMs = millisecondsFrom(text);
  const atMs = fromNowMs === undefined ? Date.parse(text) : nowMs + fromNowMs;
  return Number.isNaN(atMs) ? undefined : atMs;
}

/** Return a duration as it is written in a form. */
export function written(ms: number): string {
  const unit = (["d", "h", "m", "s"] as const).find((name) => ms >= UNITS[name] && ms % UNITS[name] === 0) ?? "ms";
  return `${ms / UNITS[unit]}${unit}`;
}

function two(ms: number, large: number, largeName: string, small: number, smallName: string): string {
  const [first, second] = [Math.floor(ms / large), Math.floor((ms % large) / small)];
  return second ? `${first} ${largeName} ${second} ${smallName}` : `${first} ${largeName}`;
}
