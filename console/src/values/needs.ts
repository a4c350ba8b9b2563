/** Needs: what a group needs somebody for. The gateway has the verdict; here it gets a place where it can be mended. */
import type { Group, PushSummary } from "../gateway/shapes.js";
import { spoken } from "./pushes.js";

export interface Need {
  kind: "bad" | "wait";
  /** Entries that wait: of two needs that are alike, the one with more entries is worse. */
  entries: number;
  tab: "pending" | "keys" | "consumers" | "dead-letters" | "push" | "settings";
  text: string;
}

const TABS: Record<Group["reasons"][number]["code"], Need["tab"]> = {
  no_consumer: "consumers",
  stalled: "consumers",
  paused: "settings",
  behind: "pending",
  push_failing: "push",
  push_paused: "push",
  push_disabled: "push",
  push_unreadable: "push",
};

/** The dead letters of a group, with their number as it is shown. */
export interface Letters {
  count: number;
  shown: string;
}

/** Return what a group needs somebody for; undefined: nothing. */
export function needOf({ verdict, reasons, noisy_key: noisy }: Group, letters?: Letters): Need | undefined {
  const worst = reasons[0];
  const dead = letters?.count ? [`${letters.shown} ${letters.count === 1 ? "dead letter" : "dead letters"}`] : [];
  const text = [...reasons.map((reason) => reason.text), ...dead].join("; ");
  if (!worst) return text ? { kind: "wait", entries: letters!.count, tab: "dead-letters", text } : undefined;
  const tab = worst.code === "behind" && noisy ? "keys" : TABS[worst.code];
  return { kind: verdict === "critical" ? "bad" : "wait", entries: worst.entries, tab, text };
}

/** Return what a push over a pattern needs somebody for. It has no group of its own, and so no verdict. */
export function needOfPush(push: PushSummary): Need | undefined {
  if (push.state === "active" || push.state === "paused") return undefined;
  const { kind, title } = spoken(push);
  return { kind: kind === "bad" ? kind : "wait", entries: 0, tab: "push", text: `Push ${title}` };
}

/** Sort needs, the worst first. */
export function worstNeedFirst(a: Need, b: Need): number {
  return Number(b.kind === "bad") - Number(a.kind === "bad") || b.entries - a.entries;
}
