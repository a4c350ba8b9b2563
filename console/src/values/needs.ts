/** Needs: what a group needs somebody for, told from a few looks at it. */
import type { Group, PushSummary } from "../gateway/shapes.js";
import { count, counted, rate } from "./numbers.js";
import { spoken } from "./pushes.js";
import { duration, moment } from "./times.js";

/** A group as it was at a time. */
export interface Look {
  atMs: number;
  /** Since when it has delivered nothing. */
  stillSinceMs: number;
  group: Group;
}

export interface Need {
  kind: "bad" | "wait";
  /** The greater, the worse; of two that are alike, the one with more entries is worse. */
  rank: number;
  entries: number;
  /** Where it can be mended. */
  tab: "pending" | "keys" | "consumers" | "dead-letters" | "push" | "settings";
  text: string;
}

/** Return the next look at a group. */
export function lookAt(group: Group, last: Look | undefined, atMs = Date.now()): Look {
  const [now, before] = [group, last?.group];
  const isStill = before?.last_id === now.last_id && before.entries_read === now.entries_read && before.released === now.released;
  return { atMs, stillSinceMs: isStill ? last!.stillSinceMs : atMs, group };
}

const STILL_MS = 5000; // a group that has delivered nothing for so long, delivers nothing
const KEEPS_UP_MS = 1000; // a lag that is made up within this time is none

/** What is known of a group besides the looks at it: the number of its dead letters, as shown, and its push. */
export interface Besides {
  letters?: { count: number; shown: string } | undefined;
  push?: PushSummary | undefined;
}

/** Return what a group needs somebody for; undefined: nothing. */
export function needOf(looks: readonly Look[], { letters, push }: Besides, nowMs = Date.now()): Need | undefined {
  const dead = letters?.count ? `${letters.shown} ${letters.count === 1 ? "dead letter" : "dead letters"}` : undefined;
  const need = (push && unsent(push, Math.min(...looks.map(waiting)))) ?? stopped(looks, nowMs) ?? behind(looks);
  if (need) return dead === undefined ? need : { ...need, text: `${need.text}; ${dead}` };
  return dead === undefined ? undefined : { kind: "wait", rank: 1, entries: letters!.count, tab: "dead-letters", text: dead };
}

/** A push does not send as it should; of those over patterns it is not known how many entries wait. */
export function unsent(push: PushSummary, entries = 0): Need | undefined {
  if (push.state === "active") return undefined;
  if (push.state === "paused" && !entries) return undefined;
  const { kind, title } = spoken(push);
  const wait = entries ? `: ${counted(entries, "entry waits", "entries wait")}` : "";
  return { kind: kind === "bad" ? kind : "wait", rank: kind === "bad" ? 4 : 3.5, entries, tab: "push", text: `Push ${title}${wait}` };
}

/** Entries wait, and none is delivered. */
function stopped(looks: readonly Look[], nowMs: number): Need | undefined {
  const { atMs, stillSinceMs, group } = looks.at(-1)!;
  const entries = Math.min(...looks.map(waiting));
  if (!entries) return undefined;
  const need = { kind: "bad", rank: 4, entries } as const;
  const wait = counted(entries, "entry waits", "entries wait");
  const { paused_until_ms: untilMs } = group.policy;
  if (untilMs != null && untilMs > nowMs) return { ...need, kind: "wait", rank: 3.5, tab: "settings", text: `Paused until ${moment(untilMs, nowMs)}: ${wait}` };
  if (!group.consumers) return { ...need, tab: "consumers", text: `No consumer: ${wait}` };
  const stillMs = atMs - stillSinceMs;
  return stillMs < STILL_MS ? undefined : { ...need, tab: "consumers", text: `Nothing delivered for ${duration(stillMs)}: ${wait}` };
}

/** There was a lag in each look, more than what is made up at once. */
function behind(looks: readonly Look[]): Need | undefined {
  const [first, last] = [looks[0]!, looks.at(-1)!];
  const [lag, passedMs] = [last.group.lag ?? 0, last.atMs - first.atMs];
  if (looks.some(({ group }) => !group.lag)) return undefined;
  const noisy = last.group.noisy_key;
  const read = (last.group.entries_read ?? 0) - (first.group.entries_read ?? 0);
  if (passedMs && (read / passedMs) * KEEPS_UP_MS > lag) return undefined;
  const perSecond = passedMs ? ((lag - first.group.lag!) / passedMs) * 1000 : 0;
  const text = `${counted(lag, "entry", "entries")} behind${noisy ? `, ${count(noisy.waiting)} of them ${spokenKey(noisy.key)}` : ""}`;
  const tab = noisy ? "keys" : "pending";
  if (perSecond > 0) return { kind: "bad", rank: 3, entries: lag, tab, text: `${text}, growing by ${rate(perSecond)}` };
  return { kind: "wait", rank: 2, entries: lag, tab, text: perSecond < 0 ? `${text}, shrinking by ${rate(-perSecond)}` : text };
}

function spokenKey(key: string | null): string {
  return key === null ? "without the field" : `of ${key}`;
}

function waiting({ group: { lag, released, delayed } }: Look): number {
  return (lag ?? 0) + Math.max(0, released - delayed);
}
