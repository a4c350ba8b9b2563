/** Stream: appends, reads, follows and changes a stream. */
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
  /** Only entries after this id. For a range, use `start` and `end`. */
  after?: string;
  start?: string;
  end?: string;
  order?: "asc" | "desc";
  limit?: number;
  /** With `after`: how long to wait if there are no entries. */
  waitMs?: number;
  /**
   * Only entries that match, such as `{ exact: { sku: "42" } }`. A page can be empty even if more entries follow: for a
   * range, continue until `nextAfter` (or `nextBefore`) is null; after an id, until `nextAfter` is `lastId`.
   */
  filter?: Filter;
  /** Names of the fields to return. Default: all fields. */
  columns?: string[];
  /** False: only entries in the stream, none from its archive. */
  archived?: boolean;
  signal?: AbortSignal;
  /** Called each time that the gateway did not answer, or could not, and the request is retried. */
  onRetry?: (error: Error) => void;
}

export interface AppendOptions extends Timing {
  /** A repeat with the same key appends nothing. Default: a new key for each append. */
  idempotencyKey?: string;
  /** Append only if this is the last id of the stream. */
  lastId?: string;
  signal?: AbortSignal;
}

/** Callbacks of a followed stream. */
export interface FollowHandlers extends FollowOptions {
  /** Called with the entries that have arrived. The next call waits for the returned promise. */
  onEntries(entries: Entry[]): unknown;
  /**
   * Called when the subscription ends with an error. The end of a closed stream is not an error: `onState` receives
   * `closed`.
   */
  onError?: (error: unknown) => void;
}

/** A subscription. `close` ends it. */
export interface Following {
  readonly connection: Connection;
  /** Why the connection is lost or refused, otherwise null. */
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

  /** Returns a group of this stream. `create` creates it. */
  group(name: string): Group {
    return new Group(this.context, this.name, name);
  }

  /** Returns the table of this stream, which must have a `keyField`. */
  table(): Table {
    return new Table(this.context, this.name);
  }

  /**
   * Appends an entry. Returns its id. The request is repeated until it succeeds or `retryMs` has passed; the entry is
   * appended at most once.
   */
  async append(fields: Fields, options: AppendOptions = {}): Promise<string> {
    return (await this.#post<Appended>("entries", entryOf(fields, options), options)).id;
  }

  /** Appends all entries or none. Returns their ids. */
  async appendMany(entries: Fields[], options: AppendOptions = {}): Promise<string[]> {
    return (await this.#post<AppendedBatch>("entries/batch", entries.map((fields) => entryOf(fields, options)), options)).ids;
  }

  /**
   * Closes the stream permanently, optionally with a last entry, in one step. Followers receive the remaining entries
   * and then end. Consumers end when the group has settled everything. Closing a closed stream without an entry changes
   * nothing.
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

  /** Reads a range, or the entries after an id. */
  read({ signal, onRetry, waitMs, filter, columns, ...range }: ReadOptions = {}): Promise<Entries> {
    const query = { ...range, wait_ms: waitMs, filter: jsonOf(filter), columns: jsonOf(columns) };
    return this.context.rest.ask("GET", `${this.#path}/entries`, { query, signal, onRetry });
  }

  /** Follows the stream across reconnections. Ends with the loop, its signal, or a closed stream. */
  follow(options?: FollowOptions): AsyncGenerator<Entry, void, void> {
    return followed(this.context, { stream: this.name }, options);
  }

  /** Follows the stream with callbacks. */
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

  /** Returns the state of the stream. */
  info(): Promise<StreamDetail> {
    return this.context.rest.ask("GET", this.#path);
  }

  /** Creates the stream. The first append also creates it. */
  create(config: StreamConfig = {}): Promise<StreamInfo> {
    return this.context.rest.ask("PUT", this.#path, { body: config, isRepeatable: true });
  }

  /** Changes settings. Null resets a setting to its default. */
  update(config: StreamConfig): Promise<StreamInfo> {
    return this.context.rest.ask("PATCH", this.#path, { body: config, isRepeatable: true });
  }

  /** Returns the schema that new entries must match; undefined if there is none. */
  async schema(): Promise<Record<string, unknown> | undefined> {
    try {
      return (await this.context.rest.ask<{ schema: Record<string, unknown> }>("GET", `${this.#path}/schema`)).schema;
    } catch (error) {
      if (error instanceof Problem && error.code === "not_found") return undefined;
      throw error;
    }
  }

  /** Sets the schema that new entries must match: JSON Schema 2020-12 for the object of fields. */
  async setSchema(schema: Record<string, unknown>, options: { force?: boolean } = {}): Promise<void> {
    await this.context.rest.ask("PUT", `${this.#path}/schema`, {
      body: { schema },
      query: { force: options.force },
      isRepeatable: true,
    });
  }

  /** Deletes the schema. The stream then accepts any entries. */
  deleteSchema(): Promise<void> {
    return this.context.rest.ask("DELETE", `${this.#path}/schema`);
  }

  /** Removes the oldest entries. Returns their number. */
  async trim(trim: Partial<Trim>): Promise<number> {
    return (await this.context.rest.ask<Trimmed>("POST", `${this.#path}/trim`, { body: trim })).removed;
  }

  /** Deletes archived entries permanently: those before an id, or all. Returns their number. */
  async trimArchive(before?: string): Promise<number> {
    return (await this.context.rest.ask<Trimmed>("DELETE", `${this.#path}/archive`, { query: { before } })).removed;
  }

  /** Deletes entries. Returns the outcome of each. */
  deleteEntries(ids: string[], references?: Deletions["references"]): Promise<DeletedEntries> {
    return this.context.rest.ask("POST", `${this.#path}/entries/delete`, { body: { ids, references } });
  }

  /** Deletes the stream and its groups. */
  delete(): Promise<void> {
    return this.context.rest.ask("DELETE", this.#path);
  }

  /** Returns the groups. */
  async groups(): Promise<GroupInfo[]> {
    const groups: GroupInfo[] = [];
    for await (const group of this.context.rest.items<GroupInfo>(`${this.#path}/groups`, "groups")) groups.push(group);
    return groups;
  }
}
