/** Table: the latest entry of each key of a stream, read, changed and followed. */
import { type Context, once } from "./context.js";
import { bytesOf, encoded, entryOf, type Fields, textOf } from "./fields.js";
import { followed, type Filter, type FollowOptions } from "./follower.js";
import { isProblem } from "./wire/problem.js";
import { jsonOf, path } from "./wire/rest.js";
import type { Entry, Row, RowWritten, StreamDetail, TableRows } from "./wire/types.js";

/** An entry with a longer key is in no row. */
const KEY_BYTES_MAX = 1024;

const BASE64 = "base64:";

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
export interface ChangesOptions extends Pick<FollowOptions, "credit" | "onState" | "signal"> {
  /** Only keys that begin with it. */
  prefix?: string;
}

/** A change of a row: the fields it has now; null if it was removed. */
export type RowChange = Row | { key: string; id: string; fields: null };

/** The id of each row. */
type Known = Map<string, string>;

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
   * the rows are read again, and what differs comes. It ends with the loop or its signal, or when the stream is closed.
   */
  async *changes(options: ChangesOptions = {}): AsyncGenerator<RowChange, void, void> {
    try {
      yield* this.#changes(options);
    } catch (error) {
      if (!options.signal?.aborted) throw error;
    }
  }

  async *#changes({ signal, prefix = "", ...options }: ChangesOptions): AsyncGenerator<RowChange, void, void> {
    const { config } = await this.context.rest.ask<StreamDetail>("GET", path`/v1/streams/${this.stream}`, { signal });
    const { keyField, tombstoneField } = config;
    const known: Known = new Map();
    for (;;) {
      const after = yield* this.#differences(known, prefix, signal);
      const gap = new AbortController();
      const until = AbortSignal.any([gap.signal, signal ?? gap.signal]);
      const following = { ...options, after, signal: until, onGap: () => gap.abort() };
      for await (const entry of followed(this.context, { stream: this.stream }, following)) {
        const key = keyOf(entry, keyField ?? "", prefix);
        if (key === undefined) continue;
        if (!Object.hasOwn(entry.fields, nameIn(entry, tombstoneField ?? "deleted"))) {
          known.set(key, entry.id);
          yield { ...entry, key };
        } else if (known.delete(key)) yield { key, id: entry.id, fields: null };
      }
      if (!gap.signal.aborted) return;
    }
  }

  /** Yield what differs from what is known, and return the id that all is as of. */
  async *#differences(known: Known, prefix: string, signal: AbortSignal | undefined): AsyncGenerator<RowChange, string, void> {
    let after = "";
    const keys = new Set<string>();
    try {
      for await (const { rows, asOf } of this.#pages({ prefix, signal })) {
        after = asOf;
        for (const row of rows) {
          keys.add(row.key);
          if (known.get(row.key) === row.id) continue;
          known.set(row.key, row.id);
          yield row;
        }
      }
    } catch (error) {
      if (!isProblem(error, "gone")) throw error;
      return yield* this.#differences(known, prefix, signal);
    }
    for (const key of known.keys()) {
      if (!keys.has(key) && known.delete(key)) yield { key, id: after, fields: null };
    }
    return after;
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
    return table + path`/${/^\.\.?$/.test(key) ? BASE64 + btoa(key) : key}`;
  }
}

async function found<T>(asking: Promise<T>): Promise<T | undefined> {
  return asking.catch((error: unknown) => {
    if (!isProblem(error, "entry_not_found")) throw error;
    return undefined;
  });
}

/** Return the value of the key field as rows have it; undefined: it makes no row, or one that is not asked for. */
function keyOf(entry: Entry, keyField: string, prefix: string): string | undefined {
  const name = nameIn(entry, keyField);
  const text = entry.fields[name];
  if (text === undefined) return undefined;
  const bytes = bytesOf(entry, name);
  if (bytes.length > KEY_BYTES_MAX || !encoded(prefix).every((byte, at) => byte === bytes[at])) return undefined;
  return text === "" || text.startsWith(BASE64) || entry.base64?.includes(name) ? BASE64 + textOf(bytes) : text;
}

/** Return a name as it stands in an entry. */
function nameIn({ namesBase64 }: Entry, name: string): string {
  return namesBase64 ? textOf(encoded(name)) : name;
}
