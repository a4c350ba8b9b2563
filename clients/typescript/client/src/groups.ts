/** Groups: the group of one name in all streams that match a pattern. Streams take turns. Each entry has its stream. */
import type { Context } from "./context.js";
import { Worked, type SettleOptions } from "./group.js";
import { errorText, type NackOptions } from "./job.js";
import type { Wanted } from "./live/line.js";
import { Push } from "./push.js";
import { toWire } from "./wire/names.js";
import { path } from "./wire/rest.js";
import type { GroupsEntries, MissingGroups, ReadGroups, SettledStream, SettledStreams, StreamIds } from "./wire/types.js";

export interface GroupsOptions {
  /** A Redis pattern, such as `orders.*`. */
  match: string;
  /** Create the group in streams that lack it. Default: skip those streams. */
  create?: MissingGroups;
  /** Number of entries per turn, by stream. Default: 1, which applies to all streams over events. */
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

  // The policy can differ between streams.
  protected async claimIdleMs(): Promise<undefined> {}

  /** The push, which sends the entries of all the streams to a URL. `set` creates it. */
  get push(): Push {
    const { match, ...options } = this.options;
    return new Push(this.context, match, this.name, options);
  }

  /** Reads entries as a consumer, with one request. */
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
