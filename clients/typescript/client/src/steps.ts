/**
 * Steps: results of the handlers of an entry, stored until the entry is settled.
 *
 * They are rows of a table of the group, the stream `STREAM.GROUP.steps`. Each row is written by a commit that succeeds
 * only while this consumer has the entry. The keys are `ENTRY/step/NAME`, `ENTRY/sleep/NUMBER` and `ENTRY/wait/KEY` for
 * what an entry has done, `signal/KEY` for the last signal of a key, and `waiting/KEY/ENTRY` for entries that wait for
 * it.
 */
import { deleteRow, putRow } from "./commit.js";
import type { Context } from "./context.js";
import { Table } from "./table.js";
import { isProblem } from "./wire/problem.js";
import { path } from "./wire/rest.js";
import type { CommitStep, FieldMap, Row } from "./wire/types.js";

/** Maximum number of rows per entry: the commit that settles the entry removes them in its 100 steps. */
export const STEPS_MAX = 90;

const CONFIG = { keyField: "key", retain: "latest", compactAfterMs: 60_000, tombstoneMs: 60_000, maxAgeMs: 90 * 86_400_000 };

/** A consumer without entries. A nack in its name affects only entries that no consumer has. */
const WAKER = "headgate-signal";

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Text such as `2d`, `90m` or `500ms`, or a number of milliseconds. */
export type Duration = string | number;

/** Ends a handler whose entry is delivered again later. Do not catch it: it is not an error. */
export class Paused extends Error {
  override readonly name = "Paused";

  constructor() {
    super("the entry is delivered again later");
  }
}

/** How a commit settles its entry: acknowledges it, extends it, or gives it back for this long. */
export type Settling = "ack" | "extend" | { laterMs: number };

export type Commit = (steps: CommitStep[], settling: Settling) => Promise<string[][]>;

/** Converts a duration to milliseconds. */
export function milliseconds(duration: Duration): number {
  if (typeof duration === "number") return duration;
  const parts = /^(\d+)(ms|s|m|h|d)$/.exec(duration);
  if (!parts) throw new RangeError(`${duration} is not a duration such as 2d, 3h, 90m, 10s or 500ms`);
  return Number(parts[1]) * UNITS[parts[2] as keyof typeof UNITS];
}

/** The steps of all entries of a group. */
export class StepTable {
  readonly name: string;

  readonly #table: Table;

  constructor(
    private readonly context: Context,
    private readonly stream: string,
    private readonly group: string,
  ) {
    this.name = `${stream}.${group}.steps`;
    this.#table = new Table(context, this.name);
  }

  /** Returns the rows whose keys start with a prefix, by key without the prefix. */
  async rows(prefix: string): Promise<Map<string, Row>> {
    const rows = new Map<string, Row>();
    try {
      for await (const row of this.#table.rows({ prefix })) rows.set(row.key.slice(prefix.length), row);
    } catch (error) {
      if (!isProblem(error, "stream_not_found")) throw error;
    }
    return rows;
  }

  /** Delivers entries now that were given back for later. */
  async wake(ids: string[]): Promise<void> {
    if (!ids.length) return;
    const place = path`/v1/streams/${this.stream}/groups/${this.group}/nack`;
    await this.context.rest.ask("POST", place, { body: { ids, mode: "fail", delayMs: 0 }, query: { consumer: WAKER } });
  }

  async signal(key: string, value: unknown): Promise<void> {
    await this.changed(() => this.#table.put(signalOf(key), { value: JSON.stringify(value ?? null) }));
    await this.wake([...(await this.rows(waitingOf(key, ""))).keys()]);
  }

  /** Changes rows. Creates the table if it does not exist. */
  async changed<T>(change: () => Promise<T>): Promise<T> {
    try {
      return await change();
    } catch (error) {
      if (!isProblem(error, "stream_not_found")) throw error;
    }
    await this.context.rest.ask("PUT", path`/v1/streams/${this.name}`, { body: CONFIG, isRepeatable: true });
    return await change();
  }
}

/** The steps of one entry, for one run of its handler. */
export class Steps {
  #known: Map<string, Row> | undefined; // by key without the prefix
  readonly #asked = new Set<string>();
  #sleeps = 0;

  constructor(
    private readonly table: StepTable,
    private readonly entryId: string,
    private readonly commit: Commit,
  ) {}

  /** Returns the steps of a commit that removes all of these rows. */
  removed(): CommitStep[] {
    return [...(this.#known?.keys() ?? [])].map((name) => deleteRow(this.table.name, this.#key(name)));
  }

  async step<T>(name: string, act: () => T | Promise<T>): Promise<T> {
    const known = await this.#find(`step/${name}`);
    if (known) return JSON.parse(known.fields.result!) as T;
    const result = await act();
    await this.#remember(`step/${name}`, { result: JSON.stringify(result ?? null) }, "extend");
    return result;
  }

  async sleep(duration: Duration): Promise<void> {
    this.#sleeps += 1;
    const name = `sleep/${this.#sleeps}`;
    const known = await this.#find(name);
    if (!known) {
      const laterMs = milliseconds(duration);
      await this.#remember(name, { for_ms: String(laterMs) }, { laterMs });
      throw new Paused();
    }
    const laterMs = await this.#leftMs(name, known);
    if (laterMs <= 0) return;
    await this.commit([], { laterMs });
    throw new Paused();
  }

  async waitFor<T>(key: string, within: Duration): Promise<T> {
    const name = `wait/${encodeURIComponent(key)}`;
    const known = await this.#find(name);
    if (known?.fields.value !== undefined) return JSON.parse(known.fields.value) as T;
    if (known?.fields.timed_out !== undefined) throw timedOut(key);
    const waiting = waitingOf(key, this.entryId);
    const isOver = deleteRow(this.table.name, waiting);
    const value = (await this.table.rows(signalOf(key))).get("")?.fields.value;
    if (value !== undefined) {
      await this.#remember(name, { value }, "extend", isOver);
      return JSON.parse(value) as T;
    }
    if (!known) {
      const laterMs = milliseconds(within);
      await this.#remember(name, { for_ms: String(laterMs) }, { laterMs }, putRow(this.table.name, waiting, {}));
    } else {
      const laterMs = await this.#leftMs(name, known);
      if (laterMs <= 0) {
        await this.#remember(name, { timed_out: "1" }, "extend", isOver);
        throw timedOut(key);
      }
      await this.commit([], { laterMs });
    }
    // A signal between our first look and our row may not have seen the row: look again.
    if ((await this.table.rows(signalOf(key))).size) await this.table.wake([this.entryId]);
    throw new Paused();
  }

  /** Returns the remaining time of a wait, by the clock of the gateway: ids contain its time. */
  async #leftMs(name: string, { id, fields }: Row): Promise<number> {
    const sinceMs = Number(fields.since_ms ?? msOf(id));
    const forMs = Number(fields.for_ms);
    return sinceMs + forMs - (await this.#remember(name, { for_ms: String(forMs), since_ms: String(sinceMs) }, "extend"));
  }

  async #find(name: string): Promise<Row | undefined> {
    if (this.#asked.has(name)) throw new Error(`${name} is used twice: give each step its own name`);
    this.#asked.add(name);
    this.#known ??= await this.table.rows(this.#key(""));
    if (!this.#known.has(name) && this.#known.size >= STEPS_MAX) throw new Error(`an entry has at most ${STEPS_MAX} steps`);
    return this.#known.get(name);
  }

  /** Writes a row and returns the time of the gateway (unix ms). */
  async #remember(name: string, fields: FieldMap, settling: Settling, ...others: CommitStep[]): Promise<number> {
    const key = this.#key(name);
    const row = putRow(this.table.name, key, fields);
    const [ids] = await this.table.changed(() => this.commit([row, ...others], settling));
    const id = ids![0]!;
    this.#known!.set(name, { key, id, fields });
    return msOf(id);
  }

  #key(name: string): string {
    return `${this.entryId}/${name}`;
  }
}

const timedOut = (key: string): Error => new DOMException(`${key} was not signalled in time`, "TimeoutError");
const msOf = (id: string): number => Number(id.split("-", 1)[0]);
const signalOf = (key: string): string => `signal/${encodeURIComponent(key)}`;
const waitingOf = (key: string, entryId: string): string => `waiting/${encodeURIComponent(key)}/${entryId}`;
