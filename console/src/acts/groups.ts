/** Acts on groups, their consumers and what is pending. */
import { call } from "../gateway/calls.js";
import type { Group, Policy, Schemas } from "../gateway/shapes.js";
import type { Act } from "../parts/act.js";
import type { Field } from "../parts/form.js";
import { changesOf, fieldsOf, POLICY } from "../parts/settings.js";
import { go, groupPlace, streamPlace } from "../route.js";
import { idFrom } from "../values/ids.js";
import { counted } from "../values/numbers.js";
import { millisecondsFrom } from "../values/times.js";

/** The path of a group, as requests take it. */
interface Place {
  stream: string;
  group: string;
}

const START: Field = {
  name: "start",
  label: "It reads after",
  kind: "text",
  value: "$",
  choices: ["$", "0"],
  hint: "$ is the last entry, 0 the beginning; or an id, 10:30, 5m ago",
};

export function createGroup(stream: string): Act<Group> {
  return {
    title: `Create a group of ${stream}`,
    verb: "Create",
    right: "manage",
    stream,
    about: "Its consumers share the entries: each goes to one of them, until it is acknowledged.",
    fields: [{ name: "group", label: "Name", kind: "text" }, START],
    call: ({ group, start }) => {
      const after = startOf(start as string);
      if (!group) return "Give it a name.";
      if (after === undefined) return "That is no place in the stream.";
      return call("put", "/v1/streams/{stream}/groups/{group}", { params: { path: { stream, group: group as string } }, body: { start: after } });
    },
    done: ({ name }) => `${name} is there.`,
    after: ({ name }) => go(groupPlace(stream, name)),
  };
}

export function deleteGroup({ stream, group }: Place, pending: number): Act<unknown> {
  return {
    title: `Delete group ${group}`,
    verb: "Delete for good",
    right: "manage",
    stream,
    group,
    destroys: true,
    typed: group,
    about: `Its position and ${counted(pending, "pending entry", "pending entries")} are forgotten. The stream keeps its entries.`,
    call: () => call("delete", "/v1/streams/{stream}/groups/{group}", { params: { path: { stream, group } } }),
    done: () => `${group} is deleted.`,
    after: () => go(streamPlace(stream, "groups")),
  };
}

export function resetPosition({ stream, group }: Place, lastId: string): Act<Group> {
  return {
    title: `Reset the position of ${group}`,
    verb: "Reset",
    right: "manage",
    stream,
    group,
    destroys: true,
    about: `It reads after ${lastId} now. Entries before the new position are not delivered, those behind it are, even again. What is pending stays pending.`,
    fields: [START],
    call: ({ start }) => {
      const after = startOf(start as string);
      if (after === undefined) return "That is no place in the stream.";
      return call("patch", "/v1/streams/{stream}/groups/{group}", { params: { path: { stream, group } }, body: { start: after } });
    },
    done: ({ last_id }) => `${group} reads after ${last_id}.`,
  };
}

export function changePolicy({ stream, group }: Place, policy: Policy): Act<Group> {
  return {
    title: `Policy of ${group}`,
    verb: "Save",
    right: "manage",
    stream,
    group,
    about: "What the group does by itself. What is empty, nobody does.",
    fields: fieldsOf(POLICY, policy),
    call: (values) => {
      const changed = changesOf(POLICY, values, policy);
      if (typeof changed === "string") return changed;
      if (Object.keys(changed).length === 0) return "Nothing is changed.";
      return call("patch", "/v1/streams/{stream}/groups/{group}", { params: { path: { stream, group } }, body: { policy: changed } });
    },
    done: () => `The policy of ${group} is changed.`,
  };
}

type Settled = Schemas["SettledEntries"];

export function ackEntries({ stream, group }: Place, ids: string[], after: () => void): Act<Settled> {
  return {
    title: `Acknowledge ${counted(ids.length, "entry", "entries")}`,
    verb: "Acknowledge",
    right: "consume",
    stream,
    group,
    destroys: true,
    about: "They count as done, whoever holds them. Nobody in the group gets them again.",
    call: () => call("post", "/v1/streams/{stream}/groups/{group}/ack", { params: { path: { stream, group } }, body: { ids } }),
    done: outcomes("acknowledged"),
    after,
  };
}

export function nackEntries({ stream, group }: Place, ids: string[], after: () => void): Act<Settled> {
  return {
    title: `Give back ${counted(ids.length, "entry", "entries")} as failed`,
    verb: "Give back",
    right: "consume",
    stream,
    group,
    about: "The next reader gets them, once they have rested. Those that were delivered too often become dead letters.",
    fields: [
      { name: "mode", label: "How", kind: "choice", options: [["fail", "it was tried, and failed"], ["fatal", "it can never work"]] },
      { name: "delay", label: "Rest", kind: "text", hint: "Such as 10s; empty: as the policy says" },
      { name: "error", label: "What went wrong", kind: "text", hint: "Comes with the next delivery, or into the dead letter" },
    ],
    call: ({ mode, delay, error }) => {
      const delay_ms = millisecondsFrom(delay as string);
      if (delay && delay_ms === undefined) return "The rest is no time.";
      const body = {
        ids,
        mode: mode as "fail" | "fatal",
        ...(delay_ms === undefined ? {} : { delay_ms }),
        ...(error ? { error: error as string } : {}),
      };
      return call("post", "/v1/streams/{stream}/groups/{group}/nack", { params: { path: { stream, group } }, body });
    },
    done: outcomes("given back"),
    after,
  };
}

export function releaseEntries({ stream, group }: Place, ids: string[], after: () => void): Act<Settled> {
  return {
    title: `Release ${counted(ids.length, "entry", "entries")}`,
    verb: "Release",
    right: "consume",
    stream,
    group,
    about: "The next reader gets them at once, as if they had not been delivered this time.",
    call: () =>
      call("post", "/v1/streams/{stream}/groups/{group}/nack", { params: { path: { stream, group } }, body: { ids, mode: "silent", delay_ms: 0 } }),
    done: outcomes("released"),
    after,
  };
}

export function claimEntries({ stream, group }: Place, ids: string[], consumers: string[], after: () => void): Act<Schemas["Claimed"]> {
  return {
    title: `Claim ${counted(ids.length, "entry", "entries")}`,
    verb: "Claim",
    right: "consume",
    stream,
    group,
    about: "They belong to another consumer then. Whoever held them cannot acknowledge them any more in its own name.",
    fields: [
      { name: "consumer", label: "For the consumer", kind: "text", choices: consumers },
      { name: "idle", label: "Only if idle for", kind: "text", value: "0s" },
    ],
    call: ({ consumer, idle }) => {
      const min_idle_ms = millisecondsFrom(idle as string);
      if (!consumer) return "Say for whom.";
      if (min_idle_ms === undefined) return "The idle time is none.";
      const params = { path: { stream, group }, query: { consumer: consumer as string } };
      return call("post", "/v1/streams/{stream}/groups/{group}/claim", { params, body: { ids, min_idle_ms, just_id: true } });
    },
    done: ({ ids: claimed }, { consumer }) => `${consumer} holds ${counted(claimed.length, "entry", "entries")} of them.`,
    after,
  };
}

export function deleteConsumer({ stream, group }: Place, consumer: string, pending: number): Act<Schemas["DeletedConsumer"]> {
  return {
    title: `Remove consumer ${consumer}`,
    verb: "Remove",
    right: "manage",
    stream,
    group,
    destroys: true,
    about: pending ? `It holds ${counted(pending, "entry", "entries")}.` : "It holds nothing.",
    fields: [{ name: "pending", label: "What it holds", kind: "choice", options: [["release", "goes to the others"], ["drop", "is forgotten, as Redis does"]] }],
    call: ({ pending: fate }) =>
      call("delete", "/v1/streams/{stream}/groups/{group}/consumers/{consumer}", {
        params: { path: { stream, group, consumer }, query: { pending: fate as "release" | "drop" } },
      }),
    done: ({ pending: held }) => `${consumer} is removed; it held ${counted(held, "entry", "entries")}.`,
  };
}

export function redrive({ stream, group }: Place, ids: string[], after: () => void): Act<Schemas["RedrivenLetters"]> {
  return {
    title: `Redrive ${counted(ids.length, "dead letter")}`,
    verb: "Redrive",
    right: "manage",
    stream,
    group,
    about: `The next reader of ${group} gets them, with a count of 0. An entry that is gone from ${stream} is appended anew.`,
    call: () => call("post", "/v1/streams/{stream}/groups/{group}/dead-letters/redrive", { params: { path: { stream, group } }, body: { ids } }),
    done: ({ results }) => `${counted(results.length, "dead letter")} sent back.`,
    after,
  };
}

/** Return the notice about settled ids: their number, and the outcomes of the others. */
function outcomes(word: string): (answer: Settled) => string {
  return ({ results }) => {
    const others = results.filter(({ outcome }) => outcome === "not_pending" || outcome === "claimed").length;
    const text = `${counted(results.length - others, "entry", "entries")} ${word}`;
    return others ? `${text}; ${others} were not pending any more.` : `${text}.`;
  };
}

function startOf(text: string): string | undefined {
  const trimmed = text.trim();
  return trimmed === "$" || trimmed === "0" ? trimmed : idFrom(trimmed, Date.now());
}
