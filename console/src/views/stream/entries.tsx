/** Entries: of a stream, the newest first or the oldest, from an id or a time, those that match; and live. */
import { useComputed, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { isSeen } from "../../gateway/polling.js";
import { key } from "../../gateway/key.js";
import { useAddressed } from "../../parts/addressed.js";
import { FieldsInLine } from "../../parts/fields-in-line.js";
import { Grid } from "../../parts/grid.js";
import { useKeys } from "../../parts/keys.js";
import { Refusal } from "../../parts/refusal.js";
import { Search } from "../../parts/search.js";
import { Switch } from "../../parts/switch.js";
import { pairsOf } from "../../values/fields.js";
import { idFrom, timeOf } from "../../values/ids.js";
import { count } from "../../values/numbers.js";
import { searchOf } from "../../values/search.js";
import { exactMoment } from "../../values/times.js";
import type { Entry } from "../../gateway/shapes.js";
import { EntryList } from "./entry-list.js";
import { EntryPanel } from "./entry-panel.js";
import { Histogram, type Span } from "./histogram.js";
import { useOpened } from "./opened.js";
import { Tail } from "./tail.js";

const COLUMNS = [{ title: "Time" }, { title: "Id", class: "mono soft wide" }, { title: "Fields", class: "mono payload" }];

const HINT = 'Exact value: sku=42. Prefix or suffix: sku=A-*, sku=*-7. Any value: sku=*. Not equal: sku!=42. Number: price>=10. With a space: sku="a b".';

type Order = "desc" | "asc";

export function Entries({ stream }: { stream: string }) {
  const order = useAddressed<Order>("order", "desc", { choices: ["desc", "asc"] });
  const times = useAddressed("times", "");
  const span = useComputed(() => spanFrom(times.value));
  const choose = (chosen: Span | undefined) => (times.value = chosen ? `${chosen.fromMs}-${chosen.toMs}` : "");
  const place = useAddressed("from", "", { written: lasting });
  const words = useAddressed("find", "");
  const isPaused = useSignal(false);
  const [opened, open] = useOpened(stream);
  const field = useRef<HTMLInputElement>(null);
  const placeId = useComputed(() => (place.value.trim() ? idFrom(place.value, Date.now()) : undefined));

  const list = useComputed(() => {
    void key.value; // another key sees other things
    const isDown = order.value === "desc";
    const start = isDown ? undefined : placeId.value;
    const end = isDown ? placeId.value : undefined;
    return new EntryList(stream, {
      order: order.value,
      start: start ?? (span.value && String(span.value.fromMs)),
      end: end ?? (span.value && String(span.value.toMs)),
      ...searchOf(words.value),
    });
  });
  const canBeLive = useComputed(() => order.value === "desc" && !span.value && placeId.value === undefined);
  const tail = useTail(list.value, canBeLive.value && isSeen.value, isPaused.value);
  useKeys([
    { key: "/", does: "search fields", run: () => field.current?.focus() },
    { key: "p", does: "pause or resume live updates", run: () => (isPaused.value = !isPaused.value) },
    { key: "Escape", does: "close the entry", run: () => open(undefined) },
  ]);

  const { entries, isBusy, isWhole, problem } = list.value;
  const isSearch = words.value.trim() !== "";
  return (
    <>
      <Histogram stream={stream} span={span} onSpan={choose} />
      <div class="tools">
        <Switch label="Order" value={order} options={[["desc", "Newest"], ["asc", "Oldest"]]} />
        <Search label="From id or time: 10:30, 5m ago" value={place} />
        <Search label="Find text, field=value, price>10" value={words} field={field} title={HINT} />
        {place.value && placeId.value === undefined && <span class="bad">Not an id or a time</span>}
        <span class="push live">
          {tail?.isOver.value ? (
            <span class="soft">complete: the stream is closed</span>
          ) : canBeLive.value ? (
            <button type="button" aria-pressed={!isPaused.value} class={isPaused.value ? "state" : "state good"} onClick={() => (isPaused.value = !isPaused.value)}>
              {isPaused.value ? "Paused" : "Live"}
            </button>
          ) : (
            <span class="soft">not live: a range is selected</span>
          )}
          {tail?.failure.value && <span class="bad">{tail.failure}</span>}
        </span>
      </div>
      {tail !== undefined && tail.waiting.value > 0 && (
        <button type="button" class="more" onClick={() => ((isPaused.value = false), scrollTo({ top: 0 }))}>
          Show {count(tail.waiting.value)}+ new entries
        </button>
      )}
      {problem.value && <Refusal problem={problem.value} what="entries" />}
      <div class={opened.value ? "split opened" : "split"}>
        <div>
          {entries.value.length > 0 && (
            <Grid
              label="Entries"
              class="entries"
              columns={COLUMNS}
              rows={entries.value}
              keyOf={(entry) => entry.id}
              opened={opened.value?.id}
              onOpen={open}
              onNear={isSearch ? undefined : () => void list.value.more()}
              cells={cellsOf}
            />
          )}
          <p class="soft end" role="status">
            {isSearch && <Matches list={list.value} />}
            {isBusy.value && (isSearch ? "Searching …" : "Loading …")}
            {isSearch && !isBusy.value && !isWhole.value && (
              <button type="button" class="small" onClick={() => void list.value.more()}>
                Continue the search
              </button>
            )}
            {isSearch && isBusy.value && (
              <button type="button" class="small" onClick={() => list.value.close()}>
                Stop
              </button>
            )}
            {!isSearch && isWhole.value && !problem.value && (entries.value.length ? "No more entries." : "No entries. New entries appear here as they are appended.")}
          </p>
        </div>
        {opened.value && (
          <EntryPanel
            stream={stream}
            entry={opened.value}
            onClose={() => open(undefined)}
            onDeleted={(id) => (list.value.remove(id), open(undefined))}
          />
        )}
      </div>
    </>
  );
}

/** Say how many entries match, of how many, and how far it was looked. */
function Matches({ list: { entries, looked, isWhole, reached, range } }: { list: EntryList }) {
  const [matching, all] = [entries.value.length, looked.value];
  const how = matching === 1 ? "entry matches" : "entries match";
  const far = !isWhole.value && reached.value ? `, searched up to ${exactMoment(timeOf(reached.value))}` : "";
  return <>{range.filter ? `${count(matching)} ${how}${far}. ` : `${count(matching)} of ${count(all)} entries match${far}. `}</>;
}

/** Return the text of a place as it means the same tomorrow. */
function lasting(place: string): string {
  const id = idFrom(place, Date.now());
  return id === undefined || place.trim().startsWith(id) ? place : new Date(timeOf(id)).toISOString();
}

function spanFrom(text: string): Span | undefined {
  const [, fromMs, toMs] = /^(\d+)-(\d+)$/.exec(text) ?? [];
  return fromMs === undefined ? undefined : { fromMs: Number(fromMs), toMs: Number(toMs) };
}

/** Fill a list, and put what is appended in front of it while that is wanted. */
function useTail(list: EntryList, isOn: boolean, isPaused: boolean): Tail | undefined {
  const tail = useSignal<Tail | undefined>(undefined);
  const isDown = useSignal(false); // somebody reads further down: nothing may move
  useEffect(() => {
    const look = () => (isDown.value = scrollY > 400);
    addEventListener("scroll", look, { passive: true });
    return () => removeEventListener("scroll", look);
  }, []);
  useEffect(() => {
    let isOver = false;
    void list.more().then(() => {
      if (isOver || !isOn || list.problem.value) return;
      tail.value = new Tail(list.stream, list.last ?? "0", list.range.filter, (entries) => list.add(entries));
    });
    return () => ((isOver = true), tail.value?.close(), (tail.value = undefined));
  }, [list, isOn]);
  useEffect(() => () => list.close(), [list]);
  const isHeld = useSignal(false);
  isHeld.value = isPaused;
  useSignalEffect(() => tail.value?.hold(isHeld.value || isDown.value));
  return tail.value;
}

function cellsOf(entry: Entry) {
  return [
    <time title={new Date(timeOf(entry.id)).toISOString()}>{exactMoment(timeOf(entry.id))}</time>,
    entry.id,
    <FieldsInLine pairs={pairsOf(entry)} />,
  ];
}
