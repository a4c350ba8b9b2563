/** Attempts: the requests of a push and their results, the latest ones or those of one entry. */
import { useSignal } from "@preact/signals";
import { ofPush, type Place } from "../../acts/pushes.js";
import { call, send } from "../../gateway/calls.js";
import { usePolled } from "../../gateway/polling.js";
import type { Push, PushAttempt } from "../../gateway/shapes.js";
import { useAddressed } from "../../parts/addressed.js";
import { Grid } from "../../parts/grid.js";
import { Refusal } from "../../parts/refusal.js";
import { Search } from "../../parts/search.js";
import { count } from "../../values/numbers.js";
import { duration, exactMoment, moment } from "../../values/times.js";

const EVERY_MS = 2000;
const COLUMNS = [
  { title: "Time" },
  { title: "Duration", class: "number" },
  { title: "Response" },
  { title: "Entries", class: "number wide" },
  { title: "Body", class: "mono soft wide" },
];

export function Attempts({ place, push }: { place: Place; push: Push }) {
  const entry = useAddressed("entry", "");
  return (
    <>
      <div class="tools">
        <Search label="Entry id" value={entry} title="Show the attempts of this entry" />
      </div>
      {entry.value ? <OfEntry place={place} id={entry.value} /> : <List attempts={push.answers} nothing="No responses yet." />}
    </>
  );
}

function OfEntry({ place, id }: { place: Place; id: string }) {
  const query = { id, limit: 100 };
  const request = ofPush(call("get", "/v1/streams/{stream}/groups/{group}/push/attempts", { params: { path: place, query } }), place);
  const { data, problem } = usePolled((signal) => send(request, signal), EVERY_MS, JSON.stringify([place, id]));
  if (problem.value) return <Refusal problem={problem.value} what="the attempts" />;
  return data.value ? <List attempts={data.value.attempts} nothing="No attempts of this entry are kept." /> : null;
}

function List({ attempts, nothing }: { attempts: PushAttempt[]; nothing: string }) {
  const opened = useSignal<string | undefined>(undefined);
  const answer = attempts.find((each) => keyOf(each) === opened.value);
  if (attempts.length === 0) return <p class="empty">{nothing}</p>;
  return (
    <div class={answer ? "split opened" : "split"}>
      <Grid
        label="Responses"
        class="answers"
        columns={COLUMNS}
        rows={attempts}
        keyOf={keyOf}
        cells={cellsOf}
        opened={opened.value}
        onOpen={(each) => (opened.value = keyOf(each))}
      />
      {answer && <Answer answer={answer} onClose={() => (opened.value = undefined)} />}
    </div>
  );
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

/** Everything about an attempt. */
function Answer({ answer, onClose }: { answer: PushAttempt; onClose: () => void }) {
  const { at_ms, took_ms, webhook_id, status, error, entry_count, excerpt, retry_after_s, next_at_ms } = answer;
  const facts = {
    Response: error ?? status,
    Duration: duration(took_ms),
    "Next attempt": next_at_ms == null ? null : exactMoment(next_at_ms),
    Stream: answer.stream || null,
    Entries: answer.ids.join(", ") || count(entry_count),
    "webhook-id": webhook_id,
    URL: answer.url || null,
    Headers: Object.entries(answer.headers).map(([name, value]) => `${name}: ${value}`).join("\n") || null,
    "Retry-After": retry_after_s == null ? null : duration(retry_after_s * 1000),
    Body: excerpt,
  };
  return (
    <aside class="panel" aria-label={`Response at ${exactMoment(at_ms)}`}>
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
