/** Schedule: an entry that the gateway appends by itself, at the times of a cron expression. */
import type { Context } from "./context.js";
import { entryOf, type Fields } from "./fields.js";
import { path } from "./wire/rest.js";
import type { Appended, ScheduleInfo } from "./wire/types.js";

export interface ScheduleParts {
  /** Stream that gets the entries. */
  stream: string;
  /** Fields of each entry; `_schedule` and `_due_ms` stand behind them. */
  fields: Fields;
  /** Minute, hour, day of month, month, day of week. */
  cron: string;
  /** IANA name; UTC unless given. */
  timeZone?: string;
  /** Due times that nobody could run: the latest of them is run late, or none is. */
  missed?: "run_once" | "skip";
  /** Nothing is due until `resume`. */
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

  /** Create the schedule, or replace it. */
  set({ fields, ...parts }: ScheduleParts): Promise<ScheduleInfo> {
    return this.context.rest.ask("PUT", this.#path, { body: { ...parts, ...entryOf(fields) }, isRepeatable: true });
  }

  /** Change parts of it. */
  update({ fields, ...parts }: Partial<ScheduleParts>): Promise<ScheduleInfo> {
    const body = fields === undefined ? parts : { ...parts, ...entryOf(fields) };
    return this.context.rest.ask("PATCH", this.#path, { body, isRepeatable: true });
  }

  /** Let nothing be due until `resume`. */
  pause(): Promise<ScheduleInfo> {
    return this.update({ paused: true });
  }

  /** Go on; what would have been due meanwhile is not made up for. */
  resume(): Promise<ScheduleInfo> {
    return this.update({ paused: false });
  }

  /** Return when it is due next, what it has appended last, and what went wrong. */
  info(): Promise<ScheduleInfo> {
    return this.context.rest.ask("GET", this.#path);
  }

  /** Append its entry now; returns the id. Its due times stay. */
  async run(): Promise<string> {
    return (await this.context.rest.ask<Appended>("POST", `${this.#path}/run`)).id;
  }

  /** Delete it; its stream stays. */
  delete(): Promise<void> {
    return this.context.rest.ask("DELETE", this.#path, { isRepeatable: true });
  }
}
