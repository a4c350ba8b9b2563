/** Pushes: their states, as people read them. */
import type { Push, PushSummary } from "../gateway/shapes.js";
import { counted } from "./numbers.js";
import { moment } from "./times.js";

const WORST_FIRST: PushSummary["state"][] = ["unreadable", "disabled", "failing", "paused", "active"];

/** A state: how bad it is, in a few words, in a sentence or two. */
export interface Spoken {
  kind: "good" | "wait" | "bad";
  title: string;
  text: string;
}

/** Return pushes with the worst ones first. */
export function worstFirst(pushes: readonly PushSummary[]): PushSummary[] {
  return pushes.toSorted((a, b) => WORST_FIRST.indexOf(a.state) - WORST_FIRST.indexOf(b.state));
}

/** Return the state of a push; of one that is failing, with the last answer if that is known. */
export function spoken(push: PushSummary & Partial<Pick<Push, "answers">>): Spoken {
  const error = push.answers?.[0]?.error;
  const { state, failing_since_ms: failingMs, disabled_at_ms: disabledMs } = push;
  switch (state) {
    case "active":
      return { kind: "good", title: state, text: "Entries are sent as they come." };
    case "failing":
      return {
        kind: "wait",
        title: since(state, failingMs),
        text: `${counted(push.failure_count, "request")} failed, one after the other${error ? `; the last one: ${error}` : ""}. One is tried now and then. If all fail, the push is disabled at ${moment((failingMs ?? 0) + push.disable_after_ms)}.`,
      };
    case "paused":
      return { kind: "wait", title: state, text: "Nothing is sent until it is resumed." };
    case "disabled":
      return {
        kind: "bad",
        title: since(state, disabledMs),
        text: `Nothing is sent until it is resumed. The reason: ${push.disabled_reason}.`,
      };
    case "unreadable":
      return {
        kind: "bad",
        title: state,
        text: "The key is missing that encrypted its URL and secrets, so nothing is sent. Give the gateway this key, or set the push anew.",
      };
  }
}

function since(state: string, ms: number | null | undefined): string {
  return ms == null ? state : `${state} since ${moment(ms)}`;
}
