/** Table: reads, changes and follows the latest entry of each key of a stream. */
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
  /** Change the row only if this is its id; otherwise throw `RowChanged`. */
  ifMatch?: string;
  /** A repeat with the same key changes nothing. Default: a new key for each change. */
  idempotencyKey?: string;
  signal?: AbortSignal | undefined;
}

export interface PutRowOptions extends DeleteRowOptions {
  /** Write only if there is no row; otherwise throw `RowChanged`. */
  ifAbsent?: boolean;
}

export interface RowsOptions {
  /** Only keys that start with this prefix. */
  prefix?: string;
  /** Only rows that match, such as `{ exact: { kind: "sale" } }`. */
  filter?: Filter;
  /** Names of the fields to return. Default: all fields. */
  columns?: string[];
  /** Number of rows per page. Default: 1,000. */
  limit?: number;
  signal?: AbortSignal | undefined;
}

/** `onState` receives `caught_up` after all rows have arrived. */
export interface ChangesOptions extends Pick<FollowOptions, "credit" | "onConnection" | "onState" | "signal"> {
  /** Only keys that start with this prefix. */
  prefix?: string;
}

/** A change of a row, with its new fields. Null: the row was removed. */
export type RowChange = Row | { key: string; id: string; fields: null };

export class Table {
  constructor(
    private readonly context: Context,
    private readonly stream: string,
  ) {}

  /** Returns the row of a key; undefined if there is no row. */
  get(key: string, { signal }: { signal?: AbortSignal } = {}): Promise<Row | undefined> {
    return found(this.context.rest.ask("GET", this.#place(key), { signal }));
  }

  /** Returns the row of a key when it changes after an id, or when `waitMs` have passed (default: 20,000). */
  wait(key: string, options: { after: string; waitMs?: number; signal?: AbortSignal }): Promise<Row | undefined> {
    const { after, waitMs = 20_000, signal } = options;
    return found(this.context.rest.ask("GET", this.#place(key), { query: { after, wait_ms: waitMs }, signal }));
  }

  /**
   * Appends an entry that becomes the row of a key. Returns its id. The gateway adds the key field.
   * @throws RowChanged if the row does not match the condition
   */
  async put(key: string, fields: Fields, options: PutRowOptions = {}): Promise<string> {
    return (await this.#change("PUT", key, options, entryOf(fields))).id;
  }

  /**
   * Appends an entry that removes the row of a key. Returns false if there is no row.
   * @throws RowChanged if the row does not match the condition
   */
  async delete(key: string, options: DeleteRowOptions = {}): Promise<boolean> {
    return !!(await found(this.#change("DELETE", key, options)));
  }

  /**
   * Yields all rows in the order of their keys, as of one id, page by page.
   * @throws Problem `gone` if too much has changed meanwhile: start again
   */
  async *rows(options?: RowsOptions): AsyncGenerator<Row, void, void> {
    for await (const { rows } of this.#pages(options)) yield* rows;
  }

  /**
   * Yields all rows, and then each change as it arrives, across reconnections. If entries were trimmed before you
   * received them, the client reads all rows again and yields the differences. Ends with the loop, its signal, or a
   * closed stream.
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
    // `.` and `..` would be folders.
    return table + path`/${/^\.\.?$/.test(key) ? `base64:${btoa(key)}` : key}`;
  }
}

async function found<T>(asking: Promise<T>): Promise<T | undefined> {
  return asking.catch((error: unknown) => {
    if (!isProblem(error, "entry_not_found")) throw error;
    return undefined;
  });
}

/** Changes of rows, the number of rows received for them, and the state after them. */
interface Arrived {
  changes: RowChange[];
  count: number;
  state?: LiveState;
}

/** Follows the rows of a table. All rows arrive at first, and again if changes are missing. */
class TableFollower extends Subscription implements Subscriber {
  readonly isBusy = false;
  #after: string | undefined; // undefined: all rows are sent
  #asOf = "";
  #keys: Set<string> | undefined; // of the rows received, until all have arrived
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

  /** Notes that all rows are sent again. Those that are not sent are gone. */
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
