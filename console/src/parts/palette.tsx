/** Palette: go to a stream by the beginning of its name; behind a slash, to a group of it; or to a view. */
import { useComputed, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call, send } from "../gateway/calls.js";
import { Problem } from "../gateway/problem.js";
import { go, groupPlace, streamPlace } from "../route.js";
import { counted } from "../values/numbers.js";
import { Dialog } from "./dialog.js";

const LISTED = 12;
const VIEWS = ["Connections", "Schedules", "Pushes"];

interface Choice {
  name: string;
  about: string;
  place: string;
}

export function Palette({ onClose }: { onClose: () => void }) {
  const text = useSignal("");
  const choices = useSignal<Choice[]>([]);
  const problem = useSignal("");
  const at = useSignal(0);
  const current = useComputed(() => Math.min(at.value, choices.value.length - 1));
  useEffect(() => {
    const asking = new AbortController();
    choicesFor(text.value, asking.signal).then(
      (found) => ((choices.value = found), (problem.value = "")),
      (error: unknown) => error instanceof Problem && ((choices.value = []), (problem.value = error.message)),
    );
    return () => asking.abort();
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
        aria-label="Stream, or stream/group"
        aria-expanded="true"
        aria-controls="choices"
        aria-activedescendant={`choice-${current.value}`}
        placeholder="Stream, or stream/group"
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
      {choices.value.length === 0 && <p class="soft">{problem.value || "Nothing begins like that."}</p>}
    </Dialog>
  );
}

async function choicesFor(text: string, signal: AbortSignal): Promise<Choice[]> {
  const [stream = "", prefix] = text.split("/");
  if (prefix !== undefined) {
    const { groups } = await send(call("get", "/v1/streams/{stream}/groups", { params: { path: { stream } } }), signal);
    const like = groups.filter(({ name }) => name.startsWith(prefix.trim()));
    return like.slice(0, LISTED).map(({ name, lag }) => ({
      name: `${stream}/${name}`,
      about: lag ? `${counted(lag, "entry", "entries")} behind` : "",
      place: groupPlace(stream, name),
    }));
  }
  const { streams } = await send(call("get", "/v1/streams", { params: { query: { prefix: text, limit: LISTED } } }), signal);
  const like = VIEWS.filter((name) => text && name.toLowerCase().startsWith(text.toLowerCase()));
  return [
    ...streams.map(({ name, length, groups }) => ({
      name,
      about: `${counted(length, "entry", "entries")}${groups ? `, ${counted(groups, "group")}` : ""}`,
      place: streamPlace(name),
    })),
    ...like.map((name) => ({ name, about: "view", place: name.toLowerCase() })),
  ];
}
