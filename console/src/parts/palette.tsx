/** Palette: go to a stream by the beginning of its name, to a group by a part of its own, or to a view. */
import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { call, send } from "../gateway/calls.js";
import { mayManageKeys } from "../gateway/principal.js";
import { Problem } from "../gateway/problem.js";
import type { Stream } from "../gateway/shapes.js";
import { go, groupPlace, streamPlace } from "../route.js";
import { type Found, matching, wantedOf } from "../values/finding.js";
import { counted } from "../values/numbers.js";
import { Dialog } from "./dialog.js";

const LISTED = 12;
const FIRST = 100; // streams among which groups are looked for by a part of their names
const STREAMS_ASKED = 120; // for their groups, while the palette is open
const GROUPS = 100; // of a stream
const PAUSE_MS = 120; // of typing, before anything is asked
const VIEWS = ["Connections", "Schedules", "Pushes", "Keys"];

interface Choice {
  name: string;
  about: string;
  place: string;
}

export function Palette({ onClose }: { onClose: () => void }) {
  const text = useSignal("");
  const choices = useSignal<Choice[]>([]);
  const problem = useSignal("");
  const isSearching = useSignal(true);
  const at = useSignal(0);
  const current = useComputed(() => Math.min(at.value, choices.value.length - 1));
  const ending = useMemo(() => new AbortController(), []);
  const look = useMemo(() => new Look(ending.signal), []);
  useEffect(() => () => ending.abort(), []);
  useEffect(() => {
    let isOver = false;
    isSearching.value = true;
    const show = (found: Choice[], fault = "") => !isOver && ((choices.value = found), (problem.value = fault), (isSearching.value = false));
    const timer = setTimeout(
      () => void look.choices(text.value).then(show, (error: unknown) => error instanceof Problem && show([], error.message)),
      text.value ? PAUSE_MS : 0,
    );
    return () => ((isOver = true), clearTimeout(timer));
  }, [text.value]);
  const open = (choice: Choice | undefined) => {
    if (!choice) return;
    onClose();
    go(choice.place);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) (event.preventDefault(), (at.value = Math.max(0, Math.min(choices.value.length - 1, current.value + step))));
    if (event.key === "Enter") (event.preventDefault(), open(choices.value[current.value]));
  };
  return (
    <Dialog label="Go to" class="palette" onClose={onClose}>
      <input
        role="combobox"
        aria-label="Stream or group"
        aria-expanded="true"
        aria-controls="choices"
        aria-activedescendant={`choice-${current.value}`}
        placeholder="Stream or group"
        autocomplete="off"
        spellcheck={false}
        autofocus
        onInput={(event) => ((text.value = event.currentTarget.value), (at.value = 0))}
        onKeyDown={onKeyDown}
      />
      <ul id="choices" role="listbox" aria-label="Streams and groups">
        {choices.value.map((choice, number) => (
          <li id={`choice-${number}`} role="option" aria-selected={number === current.value} onClick={() => open(choice)} onMouseMove={() => (at.value = number)}>
            <b>{choice.name}</b>
            <small>{choice.about}</small>
          </li>
        ))}
      </ul>
      {choices.value.length === 0 && <p class="soft">{isSearching.value ? "Searching …" : problem.value || "No results. To find a group of any stream, enter stream / group."}</p>}
    </Dialog>
  );
}

/** What is asked for while the palette is open: the groups of some streams, each stream once. */
class Look {
  readonly #groups = new Map<string, Promise<Found[]>>();
  #first: Promise<Stream[]> | undefined;

  constructor(private readonly signal: AbortSignal) {}

  async choices(text: string): Promise<Choice[]> {
    const wanted = wantedOf(text);
    const prefixed = await this.#streams(wanted.stream, LISTED);
    const first = wanted.group === undefined && wanted.stream !== "" ? await this.#firstStreams() : [];
    const asked = wanted.group === undefined && wanted.stream === "" ? [] : [...prefixed, ...first];
    const groups = (await Promise.all(asked.filter((stream) => stream.groups).map(({ name }) => this.#groupsOf(name)))).flat();
    const streams = wanted.group === undefined ? prefixed.map(ofStream) : [];
    const views = VIEWS.filter((name) => text && (name !== "Keys" || mayManageKeys.value) && name.toLowerCase().startsWith(text.toLowerCase()));
    return [
      ...streams,
      ...matching(groups, wanted).slice(0, LISTED).map(ofGroup),
      ...views.map((name) => ({ name, about: "view", place: name.toLowerCase() })),
    ];
  }

  #firstStreams(): Promise<Stream[]> {
    return (this.#first ??= this.#streams("", FIRST).catch((error: unknown) => {
      this.#first = undefined;
      throw error;
    }));
  }

  async #streams(prefix: string, limit: number): Promise<Stream[]> {
    return (await send(call("get", "/v1/streams", { params: { query: { prefix, limit } } }), this.signal)).streams;
  }

  /** Return the groups of a stream; none, once enough streams were asked for theirs. */
  #groupsOf(stream: string): Promise<Found[]> {
    let groups = this.#groups.get(stream);
    if (!groups && this.#groups.size < STREAMS_ASKED) {
      groups = this.#ask(stream);
      this.#groups.set(stream, groups);
    }
    return groups ?? Promise.resolve([]);
  }

  async #ask(stream: string): Promise<Found[]> {
    const request = call("get", "/v1/streams/{stream}/groups", { params: { path: { stream }, query: { limit: GROUPS } } });
    try {
      return (await send(request, this.signal)).groups.map(({ name, lag }) => ({ stream, group: name, lag }));
    } catch (error) {
      if (error instanceof Problem && (error.isMissing || error.isForbidden)) return [];
      this.#groups.delete(stream);
      throw error;
    }
  }
}

function ofStream({ name, length, groups }: Stream): Choice {
  return { name, about: `${counted(length, "entry", "entries")}${groups ? `, ${counted(groups, "group")}` : ""}`, place: streamPlace(name) };
}

function ofGroup({ stream, group, lag }: Found): Choice {
  return { name: `${stream} / ${group}`, about: lag ? `group, ${counted(lag, "entry", "entries")} behind` : "group", place: groupPlace(stream, group) };
}
