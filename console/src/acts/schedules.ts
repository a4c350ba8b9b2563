/** Acts on schedules. */
import { h } from "preact";
import { call } from "../gateway/calls.js";
import type { Schedule, Schemas } from "../gateway/shapes.js";
import type { Act } from "../parts/act.js";
import type { Pairs } from "../parts/form.js";
import { NextRuns } from "../parts/next-runs.js";
import { pairsOf } from "../values/fields.js";
import { entryOf, named } from "./streams.js";

const place = (schedule: string) => ({ params: { path: { schedule } } });

const NEW = {
  name: "",
  stream: "",
  cron: "",
  time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  missed: "run_once",
  paused: false,
  fields: {},
} as const;

/** Set a schedule: a new one, or one that is there. */
export function setSchedule(old?: Schedule): Act<Schedule> {
  const { name, stream, cron, time_zone, missed, paused } = old ?? NEW;
  const pairs = old ? (pairsOf(old) as Pairs) : [];
  return {
    title: old ? `Edit schedule ${name}` : "Create a schedule",
    verb: old ? "Save" : "Create",
    right: ["manage", "append"],
    ...(old && { stream }),
    about: old
      ? "The gateway uses the new values from the next run on."
      : "The gateway appends an entry at each due time, with the fields below and _schedule and _due_ms. A schedule with the same name is replaced.",
    fields: [
      ...(old ? [] : [{ name: "name", label: "Name", kind: "text" } as const]),
      { name: "stream", label: "Stream", kind: "text", value: stream },
      { name: "cron", label: "Cron", kind: "text", value: cron, hint: "Minute, hour, day of month, month, day of week, for example 0 6 * * MON-FRI" },
      { name: "time_zone", label: "Time zone", kind: "text", value: time_zone, choices: Intl.supportedValuesOf("timeZone") },
      { name: "missed", label: "Missed runs", kind: "choice", value: missed, options: [["run_once", "run the latest one"], ["skip", "skip"]] },
      { name: "pairs", label: "Fields", kind: "pairs", value: pairs.length ? pairs : [["", ""]] },
    ],
    preview: (values) => h(NextRuns, { cron: values["cron"] as string, timeZone: values["time_zone"] as string }),
    call: (values) => {
      const given = { name, ...values } as Record<string, string>;
      const own = named(values["pairs"] as Pairs);
      if (!given["name"]) return "Enter a name.";
      if (!given["stream"]) return "Enter a stream.";
      if (!given["cron"]) return "Enter a cron expression.";
      if (own.length === 0) return "Enter at least one field.";
      const base64 = old?.base64?.filter((field) => own.some(([each]) => each === field));
      const times = { stream: given["stream"], cron: given["cron"], time_zone: given["time_zone"], missed: given["missed"], paused };
      const body = { ...times, ...entryOf(own), ...(base64?.length && { base64 }) } as Schemas["ScheduleInput"];
      return call("put", "/v1/schedules/{schedule}", { ...place(given["name"]!), body });
    },
    done: (set) => `Schedule ${set.name} is saved.`,
  };
}

/** Append the entry of a schedule at once. */
export function runSchedule({ name, stream }: Schedule): Act<Schemas["Appended"]> {
  return {
    title: `Run ${name} now`,
    verb: "Run now",
    right: "append",
    stream,
    about: `Appends the entry of the schedule to ${stream} at once. The due times do not change.`,
    call: () => call("post", "/v1/schedules/{schedule}/run", place(name)),
    done: ({ id }) => `Schedule ${name} appended entry ${id} to ${stream}.`,
  };
}

export function pauseSchedule({ name, stream, paused }: Schedule): Act<Schedule> {
  return {
    title: `${paused ? "Resume" : "Pause"} ${name}`,
    verb: paused ? "Resume" : "Pause",
    right: "manage",
    stream,
    about: paused ? "Runs that were due during the pause are not made up for." : "The schedule does not run until you resume it.",
    call: () => call("patch", "/v1/schedules/{schedule}", { ...place(name), body: { paused: !paused } }),
    done: () => `Schedule ${name} is ${paused ? "resumed" : "paused"}.`,
  };
}

export function deleteSchedule({ name, stream }: Schedule): Act<unknown> {
  return {
    title: `Delete ${name}`,
    verb: "Delete",
    right: "manage",
    stream,
    destroys: true,
    about: `The schedule appends no more entries to ${stream}. Existing entries stay.`,
    call: () => call("delete", "/v1/schedules/{schedule}", place(name)),
    done: () => `Schedule ${name} is deleted.`,
  };
}
