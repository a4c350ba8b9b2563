/** Dead letters: what a group gave up on, why, and the way back. */
import { useComputed, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { redrive } from "../../acts/groups.js";
import { changes } from "../../gateway/polling.js";
import type { Entry, Policy } from "../../gateway/shapes.js";
import { ActButton } from "../../parts/act.js";
import { Grid } from "../../parts/grid.js";
import { Refusal } from "../../parts/refusal.js";
import { groupPlace, streamPlace } from "../../route.js";
import { originOf, payloadOf } from "../../values/fields.js";
import { timeOf } from "../../values/ids.js";
import { count } from "../../values/numbers.js";
import { moment } from "../../values/times.js";
import { EntryList } from "../stream/entry-list.js";
import { EntryPanel } from "../stream/entry-panel.js";
import { useOpened } from "../stream/opened.js";
import { lettersOf } from "./letter-count.js";
import { redriveAll, redriving } from "./redriving.js";

const COLUMNS = [
  { title: "Time" },
  { title: "Reason" },
  { title: "Deliveries", class: "number wide" },
  { title: "Original id", class: "mono soft wide" },
  { title: "Payload", class: "mono payload" },
];

interface Props {
  place: { stream: string; group: string };
  policy: Policy;
}

export function DeadLetters({ place, policy }: Props) {
  const { dead_letter_stream: source } = policy;
  if (source == null) {
    return (
      <p class="empty">
        The policy of this group has no dead-letter stream, so the group retries entries without limit.{" "}
        <a href={groupPlace(place.stream, place.group, "settings")}>Change the policy</a>
      </p>
    );
  }
  return <Letters place={place} source={source} />;
}

function Letters({ place, source }: { place: Props["place"]; source: string }) {
  const { stream, group } = place;
  const marks = useSignal<ReadonlySet<string>>(new Set());
  const [opened, open] = useOpened(source);
  const list = useComputed(() => {
    void changes.value;
    return new EntryList(source, { order: "desc", filter: lettersOf(place) });
  }).value;
  useEffect(() => (void list.more(), () => list.close()), [list]);
  const { entries, isBusy, isWhole, problem } = list;
  const ids = [...marks.value];
  const clear = () => (marks.value = new Set());
  const run = redriving.value;
  const isRunning = run !== undefined && run.stream === stream && run.group === group;
  const isEmpty = isWhole.value && entries.value.length === 0;
  return (
    <>
      <div class="tools sticky">
        <span>
          Dead-letter stream: <a href={streamPlace(source)}>{source}</a>
        </span>
        <span class="soft">{ids.length ? `${count(ids.length)} selected` : ""}</span>
        <span class="acts push">
          <ActButton act={redrive(place, ids, clear)} label="Redrive selected" idle={ids.length ? undefined : "Select dead letters first."} />
          <ActButton act={redriveAll(place)} label="Redrive all" idle={isEmpty ? "There are no dead letters." : undefined} />
        </span>
      </div>
      {isRunning && (
        <p class="outlook wait" role="status">
          <b>Redriving.</b> {count(run.done)} sent back, {run.perSecond ? `${count(run.perSecond)} per second` : "without a rate limit"}.{" "}
          <button type="button" class="small" onClick={run.stop}>
            Stop
          </button>
        </p>
      )}
      {problem.value && !problem.value.isMissing && <Refusal problem={problem.value} what="dead letters" />}
      {(isEmpty || problem.value?.isMissing) && <p class="empty">No dead letters.</p>}
      <div class={opened.value ? "split opened" : "split"}>
        <div>
          {entries.value.length > 0 && (
            <Grid
              label="Dead letters"
              class="letters"
              columns={COLUMNS}
              rows={entries.value}
              keyOf={(entry) => entry.id}
              marks={marks}
              opened={opened.value?.id}
              onOpen={open}
              onNear={() => void list.more()}
              cells={cellsOf}
            />
          )}
          {isBusy.value && <p class="soft">Searching … {count(entries.value.length)} found.</p>}
        </div>
        {opened.value && (
          <EntryPanel
            stream={source}
            entry={opened.value}
            onClose={() => open(undefined)}
            onDeleted={() => open(undefined)}
          />
        )}
      </div>
    </>
  );
}

function cellsOf(entry: Entry) {
  const origin = originOf(entry);
  return [
    moment(timeOf(entry.id)),
    <span title={origin?.reason}>{origin?.reason}</span>,
    origin?.deliveries,
    origin?.id,
    payloadOf(entry).map(([name, value]) => (
      <>
        <i>{name}</i>=<bdi>{value.slice(0, 200)}</bdi>{" "}
      </>
    )),
  ];
}
