/** Acts on streams. */
import { call } from "../gateway/calls.js";
import type { Schemas, Stream } from "../gateway/shapes.js";
import type { Act } from "../parts/act.js";
import type { Pairs } from "../parts/form.js";
import { CONFIG, changesOf, type Config, fieldsOf } from "../parts/settings.js";
import { go, HOME, streamPlace } from "../route.js";
import { idFrom } from "../values/ids.js";
import { count, counted, wholeNumber } from "../values/numbers.js";
import { millisecondsFrom } from "../values/times.js";

export function createStream(): Act<Stream> {
  return {
    title: "Create a stream",
    verb: "Create",
    right: "manage",
    about: "Creates an empty stream. The first append also creates a stream.",
    fields: [{ name: "stream", label: "Name", kind: "text" }, ...fieldsOf(CONFIG, {})],
    call: (values) => {
      const stream = values["stream"] as string;
      if (!stream) return "Enter a name.";
      const config = changesOf<Config>(CONFIG, values, {});
      return typeof config === "string" ? config : call("put", "/v1/streams/{stream}", { params: { path: { stream } }, body: config });
    },
    done: (stream) => `Stream ${stream.name} is created.`,
    after: (stream) => go(streamPlace(stream.name)),
  };
}

export function configureStream(stream: string, config: Config): Act<Stream> {
  return {
    title: `Configure ${stream}`,
    verb: "Save",
    right: "manage",
    stream,
    about: "Limits apply from the next append on, and as time passes.",
    fields: fieldsOf(CONFIG, config),
    call: (values) => {
      const changed = changesOf(CONFIG, values, config);
      if (typeof changed === "string") return changed;
      if (Object.keys(changed).length === 0) return "No changes.";
      return call("patch", "/v1/streams/{stream}", { params: { path: { stream } }, body: changed });
    },
    done: () => `The configuration of ${stream} is changed.`,
  };
}

export function closeStream(stream: string): Act<Schemas["Closed"]> {
  return {
    title: `Close ${stream}`,
    verb: "Close permanently",
    right: "manage",
    stream,
    destroys: true,
    about: "The stream rejects new entries. You cannot reopen it. Readers are told when they have received all entries.",
    fields: [{ name: "pairs", label: "Last entry", kind: "pairs", value: [["", ""]], hint: "Optional" }],
    call: ({ pairs }) => {
      const last = named(pairs as Pairs);
      const body = last.length ? entryOf(last) : undefined;
      return call("post", "/v1/streams/{stream}/close", { params: { path: { stream } }, body });
    },
    done: () => `Stream ${stream} is closed.`,
  };
}

export function deleteStream(stream: string, length: number, groups: number): Act<unknown> {
  return {
    title: `Delete ${stream}`,
    verb: "Delete permanently",
    right: "manage",
    stream,
    destroys: true,
    typed: stream,
    about: `Deletes ${counted(length, "entry", "entries")} and ${counted(groups, "group")}. Waiting readers are told.`,
    call: () => call("delete", "/v1/streams/{stream}", { params: { path: { stream } } }),
    done: () => `Stream ${stream} is deleted.`,
    after: () => go(HOME),
  };
}

export function trimStream(stream: string, length: number): Act<Schemas["Trimmed"]> {
  return {
    title: `Trim ${stream}`,
    verb: "Trim permanently",
    right: "manage",
    stream,
    destroys: true,
    about: ({ by, keep }) => {
      const kept = Number(keep);
      if (by === "max_length" && keep !== "" && kept >= 0) {
        return `Removes ${counted(Math.max(0, length - kept), "entry", "entries")} of ${count(length)}, the oldest first.`;
      }
      return "Removes the oldest entries.";
    },
    fields: [
      { name: "by", label: "Keep", kind: "choice", options: [["max_length", "the newest N entries"], ["min_id", "entries from an id or a time on"]] },
      { name: "keep", label: "N, id or time", kind: "text", hint: "A number, an id, 10:30, 2026-01-31 10:30 or 5m ago" },
      { name: "approximate", label: "Approximately", kind: "flag", hint: "Removes only whole blocks of entries" },
      {
        name: "references",
        label: "Entries pending in a group",
        kind: "choice",
        options: [["keep", "remove, keep the pending record"], ["delete", "remove, with the pending record"], ["acked", "do not remove"]],
      },
    ],
    call: ({ by, keep, approximate, references }) => {
      const bound = by === "max_length" ? wholeNumber(keep as string) : idFrom(keep as string, Date.now());
      if (bound === undefined) return by === "max_length" ? "Enter the number of entries to keep." : "Enter an id or a time.";
      const body = { [by as string]: bound, approximate, references } as Schemas["Trim"];
      return call("post", "/v1/streams/{stream}/trim", { params: { path: { stream } }, body });
    },
    done: ({ removed }) => `${counted(removed, "entry", "entries")} removed from ${stream}.`,
  };
}

export function appendEntry(stream: string, template: Pairs): Act<Schemas["Appended"]> {
  return {
    title: `Append to ${stream}`,
    verb: "Append",
    right: "append",
    stream,
    stays: true,
    about: template.length ? "The form starts with the fields of the last entry." : "The append creates the stream if it does not exist.",
    fields: [
      { name: "pairs", label: "Fields", kind: "pairs", value: template.length ? template : [["", ""]] },
      { name: "id", label: "Id", kind: "text", value: "*", hint: "*: the gateway assigns the next id" },
      { name: "delay", label: "Deliver after", kind: "text", hint: "Empty: at once. Or 10m, or a date and time" },
      { name: "ttl", label: "Expires", kind: "text", hint: "Empty: never. Or 1h, or a date and time" },
    ],
    call: ({ pairs, id, delay, ttl }) => {
      const given = named(pairs as Pairs);
      if (given.length === 0) return "Enter at least one field.";
      const times = { ...timeOf(delay as string, "delay_ms", "deliver_at_ms"), ...timeOf(ttl as string, "ttl_ms", "expires_at_ms") };
      if (Object.values(times).some(Number.isNaN)) return "Enter a duration, for example 10m, or a date and time.";
      const body: Schemas["Append"] = { ...entryOf(given), ...times, ...(id === "*" ? {} : { id: id as string }) };
      return call("post", "/v1/streams/{stream}/entries", { params: { path: { stream } }, body });
    },
    done: ({ id }) => `Appended with id ${id}.`,
  };
}

export function deleteEntry(stream: string, id: string, after: () => void): Act<unknown> {
  return {
    title: `Delete entry ${id}`,
    verb: "Delete permanently",
    right: "manage",
    stream,
    destroys: true,
    about: "Groups in which the entry is pending keep the pending record until the entry is acknowledged.",
    call: () => call("delete", "/v1/streams/{stream}/entries/{id}", { params: { path: { stream, id } } }),
    done: () => `Entry ${id} is deleted.`,
    after,
  };
}

/** Return a time as a member of an append: a duration from now on, or else a moment; NaN: it is none of them. */
function timeOf(text: string, after: "delay_ms" | "ttl_ms", at: "deliver_at_ms" | "expires_at_ms"): Record<string, number> {
  if (!text.trim()) return {};
  const ms = millisecondsFrom(text);
  return ms === undefined ? { [at]: Date.parse(text) } : { [after]: ms };
}

/** Return the pairs that say something. */
export function named(pairs: Pairs): Pairs {
  return pairs.filter(([name, value]) => name !== "" || value !== "");
}

/** Return pairs as the fields of an entry; as pairs, where a name repeats. */
export function entryOf(pairs: Pairs): Schemas["Append"] {
  const names = new Set(pairs.map(([name]) => name));
  return names.size === pairs.length ? { fields: Object.fromEntries(pairs) } : { pairs };
}
