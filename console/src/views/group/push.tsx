/** Push: how the entries of a group are sent to a URL, and what to do about it. */
import { useSignal } from "@preact/signals";
import { BODIES, cancelReplay, countReplay, deletePush, pausePush, type Place, retryPush, rotateSecret, setPush, SIGNATURES, testPush, unreadable } from "../../acts/pushes.js";
import type { Push, PushAttempt } from "../../gateway/shapes.js";
import { ActButton } from "../../parts/act.js";
import { Facts } from "../../parts/facts.js";
import { Refusal } from "../../parts/refusal.js";
import { Secret } from "../../parts/secret.js";
import { count, counted } from "../../values/numbers.js";
import { duration, moment } from "../../values/times.js";
import { Attempts } from "./attempts.js";
import { PushState, ReplayState, TestResult, usePush } from "./push-state.js";

const EVERY_MS = 2000;

export function PushView({ place }: { place: Place }) {
  const { data, problem } = usePush(place, EVERY_MS);
  const secret = useSignal("");
  const reveal = (shown: string) => (secret.value = shown);
  const hasNone = problem.value?.code === "not_found";
  return (
    <>
      {hasNone ? <NoPush place={place} reveal={reveal} /> : problem.value && <Refusal problem={problem.value} what="the push" />}
      {data.value && !hasNone && <SetPush place={place} push={data.value} reveal={reveal} />}
      {secret.value && <Secret {...ofPush} lines={[["Secret", secret.value]]} onClose={() => (secret.value = "")} />}
    </>
  );
}

interface Props {
  place: Place;
  reveal: (secret: string) => void;
}

function NoPush({ place, reveal }: Props) {
  return (
    <div class="empty">
      <p>This group has no push: its consumers read entries themselves. With a push, the gateway sends the entries to a URL and acknowledges them when the response is 2xx.</p>
      <ActButton act={setPush(place, undefined, reveal)} label="Create a push" class="main" />
    </div>
  );
}

function SetPush({ place, push, reveal }: Props & { push: Push }) {
  const unread = unreadable(push);
  const tested = useSignal<PushAttempt | undefined>(undefined);
  const isReplaying = push.replay?.state === "running";
  const silent = push.state === "paused" || push.state === "disabled" ? "The push is not active. Resume it first." : unread;
  return (
    <>
      <PushState push={push} />
      {push.replay && <ReplayState replay={push.replay} />}
      {tested.value && <TestResult result={tested.value} />}
      <div class="tools">
        <span class="acts">
          <ActButton act={pausePush(push)} idle={unread} />
          <ActButton act={retryPush(place)} idle={silent} />
          <ActButton act={testPush(place, (result) => (tested.value = result))} idle={unread} />
          {place.match === undefined && <ActButton act={isReplaying ? cancelReplay(place) : countReplay(place)} label={isReplaying ? "Cancel replay" : "Replay"} idle={unread} />}
          <ActButton act={rotateSecret(place, reveal)} idle={unread} />
          <ActButton act={setPush(place, push, reveal)} />
          <ActButton act={deletePush(place)} />
        </span>
      </div>
      <About push={push} />
      <Attempts place={place} push={push} />
    </>
  );
}

function About({ push }: { push: Push }) {
  const isBatch = push.body.endsWith("batch");
  return (
    <Facts
      facts={[
        { name: "URL", value: push.url ? <code>{push.url}</code> : "–" },
        { name: "delivered", value: count(push.delivered_count), title: "acknowledged entries" },
        { name: "failed", value: count(push.failed_count), title: "failed requests", class: push.state === "failing" ? "warn" : "" },
        { name: "request body", value: nameOf(BODIES, push.body) + (isBatch ? `, at most ${count(push.batch_max)}` : "") },
        { name: "concurrent requests", value: count(push.concurrency) },
        { name: "timeout", value: duration(push.timeout_ms) },
        { name: "signature", value: nameOf(SIGNATURES, push.signature) },
        { name: "disabled after", value: duration(push.disable_after_ms), title: "of failures only" },
        { name: "attempts kept", value: push.attempts_days ? counted(push.attempts_days, "day") : "none" },
        { name: "headers", value: push.header_names.join(", ") || "none" },
        ...(push.match === undefined ? [] : [{ name: "pattern", value: <code>{push.match}</code> }]),
        ...(push.previous_secret_until_ms == null ? [] : [{ name: "previous secret valid until", value: moment(push.previous_secret_until_ms) }]),
      ]}
    />
  );
}

function nameOf<T extends string>(options: [T, string][], value: T): string {
  return options.find(([own]) => own === value)?.[1] ?? value;
}

const ofPush = {
  title: "Secret of the push",
  about: "The receiver verifies signatures with this secret. Copy it now. It is not shown again.",
};
