/** Table: the latest entry of each key of a stream, read, changed and followed. */
import { Arrivals } from "./arrivals.js";
import { type Context, once } from "./context.js";
import { entryOf, type Fields } from "./fields.js";
import type { Filter, FollowOptions } from "./follower.js";
import type { LiveState, Subscriber, Wanted } from "./live/line.js";
import { Subscription } from "./live/subscription.js";
import type { Rows, Subscribed } from "./wire/frames.js";
import { fromWire } from "./wire/names.js";
import { isProblem } from "./wire/problem.js";
import { jsonOf, path } from "./wire/rest.js";
import type { Row, RowWritten, TableRows } from "./wire/types.js";
import { CreditWindow } from "./window.js";

export interface DeleteRowOptions {
  /** Only if this is the id of the row; `RowChanged` otherwise. */
  ifMatch?: string;
  /** Names this change, so that it is made once; the client chooses one unless given. */
  idempotencyKey?: string;
  signal?: AbortSignal | undefined;
}

export interface PutRowOptions extends DeleteRowOptions {
  /** Only if there is no row; `RowChanged` otherwise. */
  ifAbsent?: boolean;
}

export interface RowsOptions {
  /** Only keys that begin with it. */
  prefix?: string;
  /** Only rows for which it holds, such as `{ exact: { kind: "sale" } }`. */
  filter?: Filter;
  /** Names of the fields that are sent; all of them unless given. */
  columns?: string[];
  /** Rows in one page; 1,000 unless given. */
  limit?: number;
  signal?: AbortSignal | undefined;
}

/** `onState` is told `caught_up` once all rows have come. */
export interface ChangesOptions extends Pick<FollowOptions, "credit" | "onConnection" | "onState" | "signal"> {
  /** Only keys that begin with it. */
  prefix?: string;
}

/** A change of a row: the fields it has now; null if it was removed. */
export type RowChange = Row | { key: string; id: string; fields: null };

export class Table {
  constructor(
    private readonly context: Context,
    private readonly stream: string,
  ) {}

  /** Return the row of a key; undefined if there is none. */
  get(key: string, { signal }: { signal?: AbortSignal } = {}): Promise<Row | undefined> {
    return found(this.context.rest.ask("GET", this.#place(key), { signal }));
  }

  /** Return the row of a key once it has changed after an id, or when the time is over. */
  wait(key: string, options: { after: string; waitMs?: number; signal?: AbortSignal }): Promise<Row | undefined> {
    const { after, waitMs = 20_000, signal } = options;
    return found(this.context.rest.ask("GET", this.#place(key), { query: { after, wait_ms: waitMs }, signal }));
  }

  /**
   * Append the entry that is the row of a key from now on; returns its id. The field of the key is added.
   * @throws RowChanged if the row is not as expected
   */
  async put(key: string, fields: Fields, options: PutRowOptions = {}): Promise<string> {
    return (await this.#change("PUT", key, options, entryOf(fields))).id;
  }

  /**
   * Append an entry that removes the row of a key; false: there is none.
   * @throws RowChanged if the row is not as expected
   */
  async delete(key: string, options: DeleteRowOptions = {}): Promise<boolean> {
    return !!(await found(this.#change("DELETE", key, options)));
  }

  /**
   * Return all rows in order of their keys, as of one id, page by page.
   * @throws Problem `gone` if too much has changed meanwhile: begin again
   */
  async *rows(options?: RowsOptions): AsyncGenerator<Row, void, void> {
    for await (const { rows } of this.#pages(options)) yield* rows;
  }

  /**
   * Return all rows, and then each change as it comes, over every reconnection. Where entries were trimmed unseen,
   * all rows come again, of which you get what differs. It ends with the loop or its signal, or when the stream is closed.
   */
  async *changes(options: ChangesOptions = {}): AsyncGenerator<RowChange, void, void> {
    const { signal } = options;
    const arrivals = new Arrivals<Arrived>(signal);
    const follower = new TableFollower(this.context, this.stream, options, arrivals);
    try {
      for (let arrived = await arrivals.next(); arrived; arrived = await arrivals.next()) {
        for (const change of arrived.changes) {
          if (signal?.aborted) return;
          yield change;
        }
        follower.taken(arrived.count);
        if (arrived.state) options.onState?.(arrived.state);
      }
    } finally {
      arrivals.close();
      follower.close();
    }
  }

  async *#pages({ signal, limit = 1000, prefix, filter, columns }: RowsOptions = {}): AsyncGenerator<TableRows, void, void> {
    const asked = { limit, prefix, filter: jsonOf(filter), columns: jsonOf(columns) };
    for (let next = {}; ; ) {
      const page = await this.context.rest.ask<TableRows>("GET", this.#place(), { query: { ...asked, ...next }, signal });
      yield page;
      if (page.nextAfterKey === null) return;
      next = { after_key: page.nextAfterKey, as_of: page.asOf };
    }
  }

  #change(method: string, key: string, options: PutRowOptions, body?: object): Promise<RowWritten> {
    const { ifMatch, ifAbsent, idempotencyKey, signal } = options;
    const headers = {
      ...once(this.context, idempotencyKey),
      ...(ifMatch && { "if-match": `"${ifMatch}"` }),
      ...(ifAbsent && { "if-none-match": "*" }),
    };
    return this.context.rest.ask(method, this.#place(key), { body, headers, signal, isRepeatable: true });
  }

  #place(key?: string): string {
    const table = path`/v1/streams/${this.stream}/table`;
    if (key === undefined) return table;
    // Dots alone would be a way up.
    return table + path`/${/^\.\.?$/.test(key) ? `base64:${btoa(key)}` : key}`;
  }
}

async function found<T>(asking: Promise<T>): Promise<T | undefined> {
  return asking.catch((error: unknown) => {
    if (!isProblem(error, "entry_not_found")) throw error;
    return undefined;
  });
}

/** Changes of rows, how many rows have come for them, and the state behind them. */
interface Arrived {
  changes: RowChange[];
  count: number;
  state?: LiveState;
}

/** Follows the rows of a table: they come all at first, and again where changes are missing. */
class TableFollower extends Subscription implements Subscriber {
  readonly isBusy = false;
  #after: string | undefined; // undefined: all rows come
  #asOf = "";
  #keys: Set<string> | undefined; // of the rows that have come, until they are all there
  readonly #known = new Map<string, string>(); // the id of each row
  readonly #sub: string;
  readonly #window: CreditWindow;

  constructor(
    private readonly context: Context,
    private readonly stream: string,
    private readonly options: ChangesOptions,
    private readonly arrivals: Arrivals<Arrived>,
  ) {
    super(options);
    this.#sub = context.nextSub();
    this.#window = new CreditWindow(context, this.#sub, options.credit);
    context.line.add(this.#sub, this);
  }

  taken(rows: number): void {
    this.#window.taken(rows);
  }

  close(): void {
    void this.context.line.remove(this.#sub);
  }

  wanted(): Wanted {
    const { prefix } = this.options;
    const after = this.#after;
    return { stream: this.stream, view: "table", credit: this.#window.begin(), ...(prefix && { prefix }), ...(after && { after }) };
  }

  override subscribed(frame: Subscribed): void {
    super.subscribed(frame);
    if (frame.gap || this.#after === undefined) this.#begin(frame.position ?? "");
  }

  rows({ rows, again, position }: Rows): void {
    if (again) this.#begin("");
    this.#window.came(rows.length);
    const changes = fromWire<RowChange[]>(rows).filter((row) => this.#isNews(row));
    this.arrivals.add({ changes, count: rows.length });
    if (position) this.#after = position;
  }

  state(state: LiveState): void {
    const keys = state === "caught_up" ? this.#keys : undefined;
    const gone = keys ? [...this.#known.keys()].filter((key) => !keys.has(key) && this.#known.delete(key)) : [];
    if (keys) {
      this.#keys = undefined;
      this.#after ??= this.#asOf || undefined;
    }
    this.arrivals.add({ changes: gone.map((key) => ({ key, id: this.#asOf, fields: null })), count: 0, state });
  }

  override ended(error?: Error): void {
    super.ended(error);
    this.arrivals.end(error);
  }

  entries(): void {}
  claimed(): void {}

  /** All rows come. Those that do not are gone. */
  #begin(asOf: string): void {
    this.#after = undefined;
    this.#asOf = asOf;
    this.#keys = new Set();
  }

  #isNews({ key, id, fields }: RowChange): boolean {
    this.#keys?.add(key);
    if (!fields) return this.#known.delete(key);
    return this.#known.get(key) !== id && !!this.#known.set(key, id);
  }
}
