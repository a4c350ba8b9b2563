/** Acts on schedules. */
import { call } from "../gateway/calls.js";
import type { Schedule, Schemas } from "../gateway/shapes.js";
import type { Act } from "../parts/act.js";
import type { Pairs } from "../parts/form.js";

const place = (schedule: string) => ({ params: { path: { schedule } } });

export function createSchedule(): Act<Schedule> {
  return {
    title: "Set a schedule",
    verb: "Set",
    right: "manage",
    about: "An entry is appended at each due time, with _schedule and _due_ms behind its fields. One of this name is replaced.",
    fields: [
      { name: "name", label: "Name", kind: "text" },
      { name: "stream", label: "Stream", kind: "text" },
      { name: "cron", label: "Cron", kind: "text", hint: "Minute, hour, day of month, month, day of week: 0 6 * * MON-FRI" },
      { name: "time_zone", label: "Time zone", kind: "text", value: Intl.DateTimeFormat().resolvedOptions().timeZone },
      {
        name: "missed",
        label: "Due times that nobody could run",
        kind: "choice",
        options: [["run_once", "run the latest of them"], ["skip", "skip them"]],
      },
      { name: "pairs", label: "Fields", kind: "pairs", value: [["", ""]] },
    ],
    call: ({ name, stream, cron, time_zone, missed, pairs }) => {
      const named = (pairs as Pairs).filter(([field, value]) => field !== "" || value !== "");
      if (!name) return "Give it a name.";
      if (!stream) return "Name the stream.";
      if (!cron) return "Say when.";
      if (named.length === 0) return "An entry has at least one field.";
      const body = { stream, cron, time_zone, missed, pairs: named } as Schemas["ScheduleInput"];
      return call("put", "/v1/schedules/{schedule}", { ...place(name as string), body });
    },
    done: ({ name }) => `${name} is set.`,
  };
}

export function pauseSchedule({ name, stream, paused }: Schedule): Act<Schedule> {
  return {
    title: `${paused ? "Resume" : "Pause"} ${name}`,
    verb: paused ? "Resume" : "Pause",
    right: "manage",
    stream,
    about: paused ? "What would have been due meanwhile is not made up for." : "Nothing is due until it is resumed.",
    call: () => call("patch", "/v1/schedules/{schedule}", { ...place(name), body: { paused: !paused } }),
    done: () => `${name} ${paused ? "goes on" : "is paused"}.`,
  };
}

export function deleteSchedule({ name, stream }: Schedule): Act<unknown> {
  return {
    title: `Delete ${name}`,
    verb: "Delete",
    right: "manage",
    stream,
    destroys: true,
    about: `Nothing more is appended to ${stream} by it. What is there stays.`,
    call: () => call("delete", "/v1/schedules/{schedule}", place(name)),
    done: () => `${name} is deleted.`,
  };
}
