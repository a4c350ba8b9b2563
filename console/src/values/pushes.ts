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
      return { kind: "good", title: state, text: "The gateway sends new entries as they arrive." };
    case "failing":
      return {
        kind: "wait",
        title: since(state, failingMs),
        text: `${counted(push.failure_count, "request")} failed in a row${error ? `. Last error: ${error}` : ""}. The gateway retries one entry periodically. If all retries fail, it disables the push at ${moment((failingMs ?? 0) + push.disable_after_ms)}.`,
      };
    case "paused":
      return { kind: "wait", title: state, text: "The gateway sends nothing until you resume the push." };
    case "disabled":
      return {
        kind: "bad",
        title: since(state, disabledMs),
        text: `The gateway sends nothing until you resume the push. Reason: ${push.disabled_reason}.`,
      };
    case "unreadable":
      return {
        kind: "bad",
        title: state,
        text: "The gateway does not have the key that encrypted the URL and the secrets, so it sends nothing. Give the gateway this key, or create the push again.",
      };
  }
}

function since(state: string, ms: number | null | undefined): string {
  return ms == null ? state : `${state} since ${moment(ms)}`;
}
