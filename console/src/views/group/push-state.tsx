/** Push state: of a group, in a sentence. */
import { ofPush, type Place } from "../../acts/pushes.js";
import { call, send } from "../../gateway/calls.js";
import { type Polled, usePolled } from "../../gateway/polling.js";
import type { Push } from "../../gateway/shapes.js";
import { groupPlace } from "../../route.js";
import { spoken } from "../../values/pushes.js";

const EVERY_MS = 10_000;

export function usePush(place: Place, everyMs: number): Polled<Push> {
  const request = ofPush(call("get", "/v1/streams/{stream}/groups/{group}/push", { params: { path: place } }), place);
  return usePolled((signal) => send(request, signal), everyMs, JSON.stringify(place));
}

export function PushState({ push, isElsewhere = false }: { push: Push; isElsewhere?: boolean }) {
  const { kind, title, text } = spoken(push);
  return (
    <p class={`outlook ${kind}`} role="status">
      <b>Push {title}.</b> {text} {isElsewhere && <a href={groupPlace(push.stream, push.group, "push")}>See the push</a>}
    </p>
  );
}

/** Say why nothing is delivered, if the group has a push that does not send as it should. */
export function PushWarning({ place }: { place: Place }) {
  const { data, problem } = usePush(place, EVERY_MS);
  const push = data.value;
  return push && !problem.value && push.state !== "active" ? <PushState push={push} isElsewhere /> : null;
}
