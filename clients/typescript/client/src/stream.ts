/** Stream: append to it, read it, follow it, change it. */
import { type Context, once } from "./context.js";
import { followed, Follower, type Filter, type FollowOptions } from "./follower.js";
import { entryOf, type Fields, type Timing } from "./fields.js";
import { Group } from "./group.js";
import type { Connection } from "./live/subscription.js";
import { Table } from "./table.js";
import { Problem } from "./wire/problem.js";
import { jsonOf, path } from "./wire/rest.js";
import type {
  Appended, AppendedBatch, ClosedStream, DeletedEntries, Deletions, Entries, Entry, GroupInfo, StreamConfig, StreamDetail,
  StreamInfo, Trim, Trimmed,
} from "./wire/types.js";

export interface ReadOptions {
  /** After this id; or a range, by `start` and `end`. */
  after?: string;
  start?: string;
  end?: string;
  order?: "asc" | "desc";
  limit?: number;
  /** With `after`: how long to wait if there is nothing. */
  waitMs?: number;
  /**
   * Only entries for which it holds, such as `{ exact: { sku: "42" } }`. A page may have none of them, and more come
   * behind it: of a range until `nextAfter` (or `nextBefore`) is null, after an id until `nextAfter` is `lastId`.
   */
  filter?: Filter;
  /** Names of the fields that are sent; all of them unless given. */
  columns?: string[];
  /** False: only what is in the stream, and nothing of its archive. */
  archived?: boolean;
  signal?: AbortSignal;
  /** Told each time that the gateway did not answer, or could not, and is asked again. */
  onRetry?: (error: Error) => void;
}

export interface AppendOptions extends Timing {
  /** Names this append, so that it is made once; the client chooses one unless given. */
  idempotencyKey?: string;
  /** Append only if this is the stream's last id. */
  lastId?: string;
  signal?: AbortSignal;
}

/** Callbacks of a stream that is followed. */
export interface FollowHandlers extends FollowOptions {
  /** Called with what has come; the next call waits for the promise it returns. */
  onEntries(entries: Entry[]): unknown;
  /** Nothing more comes, for this reason. The end of a closed stream is no error: `onState` is told `closed`. */
  onError?: (error: unknown) => void;
}

/** A subscription that ends when it is told to. */
export interface Following {
  readonly connection: Connection;
  /** Why it is lost or refused; null otherwise. */
  readonly error: Error | null;
  close(): void;
}

export class Stream {
  constructor(
    private readonly context: Context,
    readonly name: string,
  ) {}

  get #path(): string {
    return path`/v1/streams/${this.name}`;
  }

  /** Return a group of this stream; it is made by its `create`. */
  group(name: string): Group {
    return new Group(this.context, this.name, name);
  }

  /** Return the table of this stream, which has a `keyField`. */
  table(): Table {
    return new Table(this.context, this.name);
  }

  /** Append an entry; returns its id. It is sent again until it is known to be there, and is there once. */
  async append(fields: Fields, options: AppendOptions = {}): Promise<string> {
    return (await this.#post<Appended>("entries", entryOf(fields, options), options)).id;
  }

  /** Append entries, all or none; returns their ids. */
  async appendMany(entries: Fields[], options: AppendOptions = {}): Promise<string[]> {
    return (await this.#post<AppendedBatch>("entries/batch", entries.map((fields) => entryOf(fields, options)), options)).ids;
  }

  /**
   * Close the stream for good, behind a last entry if there is one, in one step. Who follows it gets what there is,
   * and then the end; of a group once all is settled. To close it again without an entry changes nothing.
   */
  close(fields?: Fields, options: AppendOptions = {}): Promise<ClosedStream> {
    return this.#post("close", fields && entryOf(fields, options), options);
  }

  #post<T>(place: string, body: unknown, { idempotencyKey, lastId, signal }: AppendOptions): Promise<T> {
    const headers = {
      ...once(this.context, idempotencyKey),
      ...(lastId && { "if-match": `"${lastId}"` }),
    };
    return this.context.rest.ask("POST", `${this.#path}/${place}`, { body, headers, signal, isRepeatable: true });
  }

  /** Read a range, or what comes after an id. */
  read({ signal, onRetry, waitMs, filter, columns, ...range }: ReadOptions = {}): Promise<Entries> {
    const query = { ...range, wait_ms: waitMs, filter: jsonOf(filter), columns: jsonOf(columns) };
    return this.context.rest.ask("GET", `${this.#path}/entries`, { query, signal, onRetry });
  }

  /** Follow the stream, over every reconnection. It ends with the loop or its signal, or when the stream is closed. */
  follow(options?: FollowOptions): AsyncGenerator<Entry, void, void> {
    return followed(this.context, { stream: this.name }, options);
  }

  /** Follow the stream by callbacks. */
  subscribe({ onEntries, onError, ...options }: FollowHandlers): Following {
    let before: Promise<unknown> = Promise.resolve();
    const fail = onError ?? ((error: unknown) => this.context.report(error, `stream ${this.name}`));
    const take = (entries: Entry[]) => {
      before = before.then(() => onEntries(entries)).then(
        () => follower.taken(entries.length),
        (error) => (follower.close(), fail(error)),
      );
    };
    const end = (error?: Error) => void before.then(() => error && fail(error));
    const follower = new Follower(this.context, { stream: this.name }, options, take, end);
    options.signal?.addEventListener("abort", () => follower.close(), { once: true });
    return follower;
  }

  /** Return the state of the stream. */
  info(): Promise<StreamDetail> {
    return this.context.rest.ask("GET", this.#path);
  }

  /** Make the stream; its first append makes it, too. */
  create(config: StreamConfig = {}): Promise<StreamInfo> {
    return this.context.rest.ask("PUT", this.#path, { body: config, isRepeatable: true });
  }

  /** Change its bounds; null removes one. */
  update(config: StreamConfig): Promise<StreamInfo> {
    return this.context.rest.ask("PATCH", this.#path, { body: config, isRepeatable: true });
  }

  /** Return the schema that new entries have to match; undefined if there is none. */
  async schema(): Promise<Record<string, unknown> | undefined> {
    try {
      return (await this.context.rest.ask<{ schema: Record<string, unknown> }>("GET", `${this.#path}/schema`)).schema;
    } catch (error) {
      if (error instanceof Problem && error.code === "not_found") return undefined;
      throw error;
    }
  }

  /** Set the schema that new entries have to match: JSON Schema 2020-12 of the object of fields. */
  async setSchema(schema: Record<string, unknown>, options: { force?: boolean } = {}): Promise<void> {
    await this.context.rest.ask("PUT", `${this.#path}/schema`, {
      body: { schema },
      query: { force: options.force },
      isRepeatable: true,
    });
  }

  /** Delete the schema, so that the stream takes any entries again. */
  deleteSchema(): Promise<void> {
    return this.context.rest.ask("DELETE", `${this.#path}/schema`);
  }

  /** Remove the oldest entries; returns how many. */
  async trim(trim: Partial<Trim>): Promise<number> {
    return (await this.context.rest.ask<Trimmed>("POST", `${this.#path}/trim`, { body: trim })).removed;
  }

  /** Remove archived entries for good, those below an id or all; returns how many. */
  async trimArchive(before?: string): Promise<number> {
    return (await this.context.rest.ask<Trimmed>("DELETE", `${this.#path}/archive`, { query: { before } })).removed;
  }

  /** Delete entries, with the outcome of each. */
  deleteEntries(ids: string[], references?: Deletions["references"]): Promise<DeletedEntries> {
    return this.context.rest.ask("POST", `${this.#path}/entries/delete`, { body: { ids, references } });
  }

  /** Delete the stream with its groups. */
  delete(): Promise<void> {
    return this.context.rest.ask("DELETE", this.#path);
  }

  /** Return its groups. */
  async groups(): Promise<GroupInfo[]> {
    const groups: GroupInfo[] = [];
    for await (const group of this.context.rest.items<GroupInfo>(`${this.#path}/groups`, "groups")) groups.push(group);
    return groups;
  }
}
