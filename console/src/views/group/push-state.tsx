/** Push state: of a group, of its replay, and of the last test event, in a sentence. */
import { ofPush, type Place } from "../../acts/pushes.js";
import { call, send } from "../../gateway/calls.js";
import { type Polled, usePolled } from "../../gateway/polling.js";
import type { Push, PushAttempt, PushReplay } from "../../gateway/shapes.js";
import { spoken } from "../../values/pushes.js";
import { count } from "../../values/numbers.js";
import { duration } from "../../values/times.js";

export function usePush(place: Place, everyMs: number): Polled<Push> {
  const request = ofPush(call("get", "/v1/streams/{stream}/groups/{group}/push", { params: { path: place } }), place);
  return usePolled((signal) => send(request, signal), everyMs, JSON.stringify(place));
}

export function PushState({ push }: { push: Push }) {
  const { kind, title, text } = spoken(push);
  return (
    <p class={`outlook ${kind}`} role="status">
      <b>Push {title}.</b> {text}
    </p>
  );
}

export function TestResult({ result: { status, error, took_ms, excerpt } }: { result: PushAttempt }) {
  return (
    <p class={`outlook ${error ? "bad" : "good"}`} role="status">
      <b>Test event: {error ?? `answered ${status}`}.</b> It took {duration(took_ms)}. {excerpt && <code>{excerpt}</code>}
    </p>
  );
}

export function ReplayState({ replay: { state, entries, at_least, sent, failed } }: { replay: PushReplay }) {
  return (
    <p class={`outlook ${state === "running" ? "wait" : failed ? "bad" : "soft"}`} role="status">
      <b>Replay {state}.</b> {count(sent)} of {at_least && "at least "}
      {count(entries)} sent again, {count(failed)} failed.
    </p>
  );
}
