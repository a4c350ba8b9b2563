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
  label: "Start after",
  kind: "text",
  value: "$",
  choices: ["$", "0"],
  hint: "$: the last entry. 0: the beginning. Or an id, 10:30, 5m ago",
};

export function createGroup(stream: string): Act<Group> {
  return {
    title: `Create a group on ${stream}`,
    verb: "Create",
    right: "manage",
    stream,
    about: "The consumers of a group share the entries. Each entry is delivered to one consumer until it is acknowledged.",
    fields: [{ name: "group", label: "Name", kind: "text" }, START],
    call: ({ group, start }) => {
      const after = startOf(start as string);
      if (!group) return "Enter a name.";
      if (after === undefined) return "Enter $, 0, an id or a time.";
      return call("put", "/v1/streams/{stream}/groups/{group}", { params: { path: { stream, group: group as string } }, body: { start: after } });
    },
    done: ({ name }) => `Group ${name} is created.`,
    after: ({ name }) => go(groupPlace(stream, name)),
  };
}

export function deleteGroup({ stream, group }: Place, pending: number): Act<unknown> {
  return {
    title: `Delete group ${group}`,
    verb: "Delete permanently",
    right: "manage",
    stream,
    group,
    destroys: true,
    typed: group,
    about: `Deletes the position of the group and ${counted(pending, "pending entry", "pending entries")}. The stream keeps its entries.`,
    call: () => call("delete", "/v1/streams/{stream}/groups/{group}", { params: { path: { stream, group } } }),
    done: () => `Group ${group} is deleted.`,
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
    about: `The current position is ${lastId}. The group delivers the entries after the new position, even if it delivered them before, and skips the entries before it. Pending entries stay pending.`,
    fields: [START],
    call: ({ start }) => {
      const after = startOf(start as string);
      if (after === undefined) return "Enter $, 0, an id or a time.";
      return call("patch", "/v1/streams/{stream}/groups/{group}", { params: { path: { stream, group } }, body: { start: after } });
    },
    done: ({ last_id }) => `The position of ${group} is ${last_id}.`,
  };
}

export function changePolicy({ stream, group }: Place, policy: Policy): Act<Group> {
  return {
    title: `Policy of ${group}`,
    verb: "Save",
    right: "manage",
    stream,
    group,
    about: "Empty fields have no effect.",
    fields: fieldsOf(POLICY, policy),
    call: (values) => {
      const changed = changesOf(POLICY, values, policy);
      if (typeof changed === "string") return changed;
      if (Object.keys(changed).length === 0) return "No changes.";
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
    about: "Marks the entries as processed, whichever consumer holds them. The group does not deliver them again.",
    call: () => call("post", "/v1/streams/{stream}/groups/{group}/ack", { params: { path: { stream, group } }, body: { ids } }),
    done: outcomes("acknowledged"),
    after,
  };
}

export function nackEntries({ stream, group }: Place, ids: string[], after: () => void): Act<Settled> {
  return {
    title: `Nack ${counted(ids.length, "entry", "entries")}`,
    verb: "Nack",
    right: "consume",
    stream,
    group,
    about: "Gives the entries back as failed. The group redelivers them after the delay. Entries that reached the max deliveries become dead letters.",
    fields: [
      { name: "mode", label: "Mode", kind: "choice", options: [["fail", "fail: retry later"], ["fatal", "fatal: dead letter now"]] },
      { name: "delay", label: "Delay", kind: "text", hint: "For example 10s. Empty: as in the policy" },
      { name: "error", label: "Error", kind: "text", hint: "Stored with the next delivery or in the dead letter" },
    ],
    call: ({ mode, delay, error }) => {
      const delay_ms = millisecondsFrom(delay as string);
      if (delay && delay_ms === undefined) return "Enter a delay, for example 10s.";
      const body = {
        ids,
        mode: mode as "fail" | "fatal",
        ...(delay_ms === undefined ? {} : { delay_ms }),
        ...(error ? { error: error as string } : {}),
      };
      return call("post", "/v1/streams/{stream}/groups/{group}/nack", { params: { path: { stream, group } }, body });
    },
    done: outcomes("given back as failed"),
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
    about: "The next read delivers the entries. This delivery does not count.",
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
    about: "Assigns the entries to another consumer. The previous consumer can no longer acknowledge them under its name.",
    fields: [
      { name: "consumer", label: "New consumer", kind: "text", choices: consumers },
      { name: "idle", label: "Min idle time", kind: "text", value: "0s" },
    ],
    call: ({ consumer, idle }) => {
      const min_idle_ms = millisecondsFrom(idle as string);
      if (!consumer) return "Enter a consumer.";
      if (min_idle_ms === undefined) return "Enter an idle time, for example 10s.";
      const params = { path: { stream, group }, query: { consumer: consumer as string } };
      return call("post", "/v1/streams/{stream}/groups/{group}/claim", { params, body: { ids, min_idle_ms, just_id: true } });
    },
    done: ({ ids: claimed }, { consumer }) => `${consumer} claimed ${counted(claimed.length, "entry", "entries")}.`,
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
    about: pending ? `The consumer has ${counted(pending, "pending entry", "pending entries")}.` : "The consumer has no pending entries.",
    fields: [{ name: "pending", label: "Pending entries", kind: "choice", options: [["release", "release: deliver to other consumers"], ["drop", "drop: do not deliver again (as in Redis)"]] }],
    call: ({ pending: fate }) =>
      call("delete", "/v1/streams/{stream}/groups/{group}/consumers/{consumer}", {
        params: { path: { stream, group, consumer }, query: { pending: fate as "release" | "drop" } },
      }),
    done: ({ pending: held }) => `${consumer} is removed. It had ${counted(held, "pending entry", "pending entries")}.`,
  };
}

export function redrive({ stream, group }: Place, ids: string[], after: () => void): Act<Schemas["RedrivenLetters"]> {
  return {
    title: `Redrive ${counted(ids.length, "dead letter")}`,
    verb: "Redrive",
    right: "manage",
    stream,
    group,
    about: `Sends the dead letters back to ${group} with a delivery count of 0. Entries that are no longer in ${stream} are appended again.`,
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
    return others ? `${text}. ${others} were no longer pending.` : `${text}.`;
  };
}

function startOf(text: string): string | undefined {
  const trimmed = text.trim();
  return trimmed === "$" || trimmed === "0" ? trimmed : idFrom(trimmed, Date.now());
}
