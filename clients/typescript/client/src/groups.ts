/** Groups: the group of one name in all streams that match a pattern. Streams take turns, and each entry says its stream. */
import type { Context } from "./context.js";
import { Worked, type SettleOptions } from "./group.js";
import { errorText, type NackOptions } from "./job.js";
import type { Wanted } from "./live/line.js";
import { Push } from "./push.js";
import { toWire } from "./wire/names.js";
import { path } from "./wire/rest.js";
import type { GroupsEntries, MissingGroups, ReadGroups, SettledStream, SettledStreams, StreamIds } from "./wire/types.js";

export interface GroupsOptions {
  /** A pattern of Redis, such as `orders.*`. */
  match: string;
  /** Create the group where there is none; otherwise such streams are left out. */
  create?: MissingGroups;
  /** Entries of a stream in each of its turns, by name; 1 for all others, and over events. */
  weights?: Record<string, number>;
}

export class Groups extends Worked {
  constructor(
    context: Context,
    readonly name: string,
    readonly options: GroupsOptions,
  ) {
    super(context);
  }

  protected get names(): Wanted {
    return { ...(toWire(this.options) as { match: string }), group: this.name };
  }

  // The policy may be another one in each stream.
  protected async claimIdleMs(): Promise<undefined> {}

  /** Its push, by which the gateway sends the entries of all the streams to a URL; it is made by its `set`. */
  get push(): Push {
    const { match, ...options } = this.options;
    return new Push(this.context, match, this.name, options);
  }

  /** Read as a consumer, by a request. */
  read({ consumer, signal, ...body }: ReadGroups & { consumer: string; signal?: AbortSignal }): Promise<GroupsEntries> {
    const { match, ...options } = this.options;
    return this.#ask("read", { ...options, ...body }, { match, consumer }, signal);
  }

  async ack(entries: StreamIds[], { consumer }: SettleOptions = {}): Promise<SettledStream[]> {
    return (await this.#ask<SettledStreams>("ack", { entries }, { consumer })).streams;
  }

  async nack(entries: StreamIds[], { consumer, error, ...options }: NackOptions & SettleOptions = {}): Promise<SettledStream[]> {
    return (await this.#ask<SettledStreams>("nack", { entries, ...options, error: errorText(error) }, { consumer })).streams;
  }

  async extend(entries: StreamIds[], { consumer }: SettleOptions): Promise<SettledStream[]> {
    return (await this.#ask<SettledStreams>("extend", { entries }, { consumer })).streams;
  }

  #ask<T>(verb: string, body: unknown, query: Record<string, string | undefined>, signal?: AbortSignal): Promise<T> {
    return this.context.rest.ask("POST", path`/v1/groups/${this.name}` + `/${verb}`, { query, body, signal });
  }
}
