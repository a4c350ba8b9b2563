/** Schedule: an entry that the gateway appends at the times of a cron expression. */
import type { Context } from "./context.js";
import { entryOf, type Fields } from "./fields.js";
import { path } from "./wire/rest.js";
import type { Appended, ScheduleInfo } from "./wire/types.js";

export interface ScheduleParts {
  /** Stream to append the entries to. */
  stream: string;
  /** Fields of each entry. The gateway adds `_schedule` and `_due_ms` after them. */
  fields: Fields;
  /** Minute, hour, day of month, month, day of week. */
  cron: string;
  /** IANA time zone name. Default: UTC. */
  timeZone?: string;
  /** What to do with missed due times: run the latest of them late, or none. Default: `run_once`. */
  missed?: "run_once" | "skip";
  /** Whether the schedule is paused until `resume`. */
  paused?: boolean;
}

export class Schedule {
  constructor(
    private readonly context: Context,
    readonly name: string,
  ) {}

  get #path(): string {
    return path`/v1/schedules/${this.name}`;
  }

  /** Creates the schedule or replaces it. */
  set({ fields, ...parts }: ScheduleParts): Promise<ScheduleInfo> {
    return this.context.rest.ask("PUT", this.#path, { body: { ...parts, ...entryOf(fields) }, isRepeatable: true });
  }

  /** Changes parts of the schedule. */
  update({ fields, ...parts }: Partial<ScheduleParts>): Promise<ScheduleInfo> {
    const body = fields === undefined ? parts : { ...parts, ...entryOf(fields) };
    return this.context.rest.ask("PATCH", this.#path, { body, isRepeatable: true });
  }

  /** Appends nothing until `resume`. */
  pause(): Promise<ScheduleInfo> {
    return this.update({ paused: true });
  }

  /** Ends the pause. Due times missed during the pause are skipped. */
  resume(): Promise<ScheduleInfo> {
    return this.update({ paused: false });
  }

  /** Returns the next due time, the last entry and the last problem. */
  info(): Promise<ScheduleInfo> {
    return this.context.rest.ask("GET", this.#path);
  }

  /** Appends the entry now. Returns its id. Due times do not change. */
  async run(): Promise<string> {
    return (await this.context.rest.ask<Appended>("POST", `${this.#path}/run`)).id;
  }

  /** Deletes the schedule. Its stream remains. */
  delete(): Promise<void> {
    return this.context.rest.ask("DELETE", this.#path, { isRepeatable: true });
  }
}
