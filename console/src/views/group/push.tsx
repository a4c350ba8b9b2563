/** Push: how the entries of a group are sent to a URL, what was answered, and what to do about it. */
import { useSignal } from "@preact/signals";
import { BODIES, deletePush, pausePush, type Place, retryPush, rotateSecret, setPush, SIGNATURES, unreadable } from "../../acts/pushes.js";
import type { Push, PushAttempt } from "../../gateway/shapes.js";
import { ActButton } from "../../parts/act.js";
import { Shell } from "../../parts/copy.js";
import { Dialog } from "../../parts/dialog.js";
import { Facts } from "../../parts/facts.js";
import { Grid } from "../../parts/grid.js";
import { Refusal } from "../../parts/refusal.js";
import { count } from "../../values/numbers.js";
import { duration, exactMoment, moment } from "../../values/times.js";
import { PushState, usePush } from "./push-state.js";

const EVERY_MS = 2000;
const COLUMNS = [
  { title: "At" },
  { title: "Took", class: "number" },
  { title: "Answer" },
  { title: "Entries", class: "number wide" },
  { title: "What it said", class: "mono soft wide" },
];

export function PushView({ place }: { place: Place }) {
  const { data, problem } = usePush(place, EVERY_MS);
  const secret = useSignal("");
  const reveal = (shown: string) => (secret.value = shown);
  const hasNone = problem.value?.code === "not_found";
  return (
    <>
      {hasNone ? <NoPush place={place} reveal={reveal} /> : problem.value && <Refusal problem={problem.value} what="The push" />}
      {data.value && !hasNone && <SetPush place={place} push={data.value} reveal={reveal} />}
      {secret.value && <Secret secret={secret.value} onClose={() => (secret.value = "")} />}
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
      <p>Consumers read this group by themselves. With a push the gateway sends its entries to a URL, and acknowledges what is answered with 2xx.</p>
      <ActButton act={setPush(place, undefined, reveal)} label="Set a push" class="main" />
    </div>
  );
}

function SetPush({ place, push, reveal }: Props & { push: Push }) {
  const opened = useSignal<string | undefined>(undefined);
  const answer = push.answers.find((each) => keyOf(each) === opened.value);
  const unread = unreadable(push);
  const silent = push.state === "paused" || push.state === "disabled" ? "It sends nothing: resume it." : unread;
  return (
    <>
      <PushState push={push} />
      <div class="tools">
        <span class="acts">
          <ActButton act={pausePush(push)} idle={unread} />
          <ActButton act={retryPush(place)} idle={silent} />
          <ActButton act={rotateSecret(place, reveal)} idle={unread} />
          <ActButton act={setPush(place, push, reveal)} />
          <ActButton act={deletePush(place)} />
        </span>
      </div>
      <About push={push} />
      {push.answers.length === 0 && <p class="empty">Nothing has been answered yet.</p>}
      <div class={answer ? "split opened" : "split"}>
        {push.answers.length > 0 && (
          <Grid
            label="Answers"
            class="answers"
            columns={COLUMNS}
            rows={push.answers}
            keyOf={keyOf}
            cells={cellsOf}
            opened={opened.value}
            onOpen={(each) => (opened.value = keyOf(each))}
          />
        )}
        {answer && <Answer answer={answer} onClose={() => (opened.value = undefined)} />}
      </div>
    </>
  );
}

function About({ push }: { push: Push }) {
  const isBatch = push.body.endsWith("batch");
  return (
    <Facts
      facts={[
        { name: "URL", value: push.url ? <code>{push.url}</code> : "–" },
        { name: "delivered", value: count(push.delivered_count), title: "entries that were acknowledged" },
        { name: "failed", value: count(push.failed_count), title: "requests that were not", class: push.state === "failing" ? "warn" : "" },
        { name: "a request has", value: nameOf(BODIES, push.body) + (isBatch ? `, ${count(push.batch_max)} at most` : "") },
        { name: "requests at a time", value: count(push.concurrency) },
        { name: "time for an answer", value: duration(push.timeout_ms) },
        { name: "signature", value: nameOf(SIGNATURES, push.signature) },
        { name: "disabled after", value: duration(push.disable_after_ms), title: "of nothing but failures" },
        { name: "headers", value: push.header_names.join(", ") || "none" },
        ...(push.match === undefined ? [] : [{ name: "of all streams that match", value: <code>{push.match}</code> }]),
        ...(push.previous_secret_until_ms == null ? [] : [{ name: "the old secret signs until", value: moment(push.previous_secret_until_ms) }]),
      ]}
    />
  );
}

function nameOf<T extends string>(options: [T, string][], value: T): string {
  return options.find(([own]) => own === value)?.[1] ?? value;
}

function keyOf({ at_ms, webhook_id }: PushAttempt): string {
  return `${at_ms}/${webhook_id}`;
}

function cellsOf({ at_ms, took_ms, status, error, entry_count, excerpt }: PushAttempt) {
  return [
    <time title={exactMoment(at_ms)}>{moment(at_ms)}</time>,
    duration(took_ms),
    <span class={error ? "bad" : "good"} title={error ?? ""}>
      {error ?? status}
    </span>,
    count(entry_count),
    <span title={excerpt ?? ""}>{excerpt}</span>,
  ];
}

/** Everything about an answer. */
function Answer({ answer, onClose }: { answer: PushAttempt; onClose: () => void }) {
  const { at_ms, took_ms, webhook_id, status, error, entry_count, excerpt, retry_after_s } = answer;
  const facts = {
    Answer: error ?? status,
    Took: duration(took_ms),
    Entries: count(entry_count),
    "webhook-id": webhook_id,
    "Wants nothing for": retry_after_s == null ? null : duration(retry_after_s * 1000),
    "What it said": excerpt,
  };
  return (
    <aside class="panel" aria-label={`Answer of ${exactMoment(at_ms)}`}>
      <header>
        <h2 class="mono">{exactMoment(at_ms)}</h2>
        <button type="button" class="icon" aria-label="Close" onClick={onClose}>
          ×
        </button>
      </header>
      <dl class="values">
        {Object.entries(facts).map(
          ([name, value]) =>
            value != null && (
              <>
                <dt>{name}</dt>
                <dd tabIndex={0}>{value}</dd>
              </>
            ),
        )}
      </dl>
    </aside>
  );
}

/** A secret that is not shown again. */
function Secret({ secret, onClose }: { secret: string; onClose: () => void }) {
  return (
    <Dialog label="The secret" class="secret" stays onClose={onClose}>
      <h2>The secret</h2>
      <p class="about">The receiver checks signatures with it. Copy it now: it is not shown again.</p>
      <Shell line={secret} label="Secret" />
      <form method="dialog">
        <footer>
          <span class="needs" />
          <button class="main">Done</button>
        </footer>
      </form>
    </Dialog>
  );
}
