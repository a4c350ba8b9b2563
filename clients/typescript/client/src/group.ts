/** Group: consumers share the entries of a stream. Each entry goes to one of them, until it is acknowledged. */
import { Arrivals } from "./arrivals.js";
import { Consumer, type ConsumeOptions } from "./consumer.js";
import type { Context } from "./context.js";
import { errorText, type Job, type NackOptions } from "./job.js";
import type { Wanted } from "./live/line.js";
import { Push } from "./push.js";
import { path } from "./wire/rest.js";
import { StepTable } from "./steps.js";
import type {
  Autoclaim, Autoclaimed, Claim, Claimed, DeletedConsumer, GroupConsumer, GroupEntries, GroupInfo,
  GroupInput, GroupKey, GroupKeys, GroupPatch, PendingEntries, PendingEntry, PendingSummary, ReadGroup, Redrive, Redriven, RedrivenEntries, Settled,
  SettledEntries,
} from "./wire/types.js";
import { drainOn, type Handler, Worker, type WorkOptions } from "./worker.js";

export interface PendingOptions {
  start?: string;
  end?: string;
  limit?: number;
  consumer?: string;
  minIdleMs?: number;
}

type Named = { consumer?: string | undefined; signal?: AbortSignal | undefined };
/** Options for settling. With a `consumer`, entries that another consumer has claimed stay with it. */
export type SettleOptions = { consumer?: string };

/** What consumers process: a group, or a group over a pattern. */
export abstract class Worked {
  constructor(protected readonly context: Context) {}

  /** Names in the subscribe frame. */
  protected abstract get names(): Wanted;

  /** Idle time after which other consumers may claim an entry, if known. */
  protected abstract claimIdleMs(): Promise<number | undefined>;

  /**
   * Processes the group: runs the handler for each job, acknowledges the job when the handler returns, and gives it
   * back as failed when the handler throws. Resolves when a signal has ended the worker and the jobs that it had begun
   * are done.
   */
  async work(handler: Handler, options: WorkOptions = {}): Promise<void> {
    const { concurrency = 16, onError } = options;
    const credit = options.credit ?? Math.max(64, 2 * concurrency);
    const consumer = this.#consumer({ ...options, credit });
    const { group, stream, match } = this.names;
    const where = `group ${group} of ${stream ?? match}`;
    const report = onError ?? ((error, job) => this.context.report(error, `job ${job.id}, ${where}`));
    const worker = new Worker(consumer, handler, concurrency, report);
    const forget = drainOn(worker, options);
    try {
      consumer.open();
      await worker.finished;
    } finally {
      forget();
    }
  }

  /** Yields jobs one by one. Acknowledge each job or give it back. Unsettled jobs go back when the loop ends. */
  async *consume(options: ConsumeOptions = {}): AsyncGenerator<Job, void, void> {
    const consumer = this.#consumer(options);
    const arrivals = new Arrivals(options.signal, () => consumer.take());
    consumer.onJobs = () => arrivals.come();
    consumer.onEnd = (error) => arrivals.end(error);
    try {
      consumer.open();
      for (let job = await arrivals.next(); job; job = await arrivals.next()) yield job;
    } finally {
      arrivals.close();
      await consumer.close();
    }
  }

  #consumer(options: ConsumeOptions): Consumer {
    return new Consumer(this.context, this.names, options, () => this.claimIdleMs());
  }
}

export class Group extends Worked {
  constructor(
    context: Context,
    readonly stream: string,
    readonly name: string,
  ) {
    super(context);
  }

  /** The push, which sends the entries to a URL. `set` creates it. */
  get push(): Push {
    return new Push(this.context, this.stream, this.name);
  }

  protected get names(): Wanted {
    return { stream: this.stream, group: this.name };
  }

  protected async claimIdleMs(): Promise<number | undefined> {
    return (await this.info()).policy.claimIdleMs ?? undefined;
  }

  /** Creates the group. Does nothing if it exists with the same policy. */
  create(group: GroupInput = {}): Promise<GroupInfo> {
    return this.context.rest.ask("PUT", this.#path, { body: group, isRepeatable: true });
  }

  /** Returns the state of the group. */
  info(): Promise<GroupInfo> {
    return this.context.rest.ask("GET", this.#path);
  }

  /** Changes the position or the policy. */
  update(patch: GroupPatch): Promise<GroupInfo> {
    return this.context.rest.ask("PATCH", this.#path, { body: patch, isRepeatable: true });
  }

  /**
   * Resumes handlers that wait for a key, now or later (`Job.waitFor`). The last signal of a key counts, for 90 days.
   */
  signal(key: string, value?: unknown): Promise<void> {
    return new StepTable(this.context, this.stream, this.name).signal(key, value);
  }

  /** Deletes the group and its pending entries. */
  delete(): Promise<void> {
    return this.context.rest.ask("DELETE", this.#path);
  }

  /** Reads entries as a consumer, with one request. */
  read({ consumer, signal, ...body }: ReadGroup & Named): Promise<GroupEntries> {
    return this.#ask("read", { ...body }, { consumer, signal });
  }

  async ack(ids: string[], options: SettleOptions = {}): Promise<Settled[]> {
    return (await this.#ask<SettledEntries>("ack", { ids }, options)).results;
  }

  async nack(ids: string[], { consumer, error, ...options }: NackOptions & SettleOptions = {}): Promise<Settled[]> {
    return (await this.#ask<SettledEntries>("nack", { ids, ...options, error: errorText(error) }, { consumer })).results;
  }

  async extend(ids: string[], options: SettleOptions): Promise<Settled[]> {
    return (await this.#ask<SettledEntries>("extend", { ids }, options)).results;
  }

  claim({ consumer, signal, ...body }: Claim & Named): Promise<Claimed> {
    return this.#ask("claim", { ...body }, { consumer, signal });
  }

  autoclaim({ consumer, signal, ...body }: Autoclaim & Named): Promise<Autoclaimed> {
    return this.#ask("autoclaim", { ...body }, { consumer, signal });
  }

  /** Returns the pending entries, with their consumers and idle times. */
  async pending({ minIdleMs, ...options }: PendingOptions = {}): Promise<PendingEntry[]> {
    const query = { ...options, min_idle_ms: minIdleMs };
    return (await this.context.rest.ask<PendingEntries>("GET", `${this.#path}/pending`, { query })).pending;
  }

  pendingSummary(): Promise<PendingSummary> {
    return this.context.rest.ask("GET", `${this.#path}/pending/summary`);
  }

  /** Delivers dead letters again, oldest first. */
  async redrive(redrive: Redrive = {}): Promise<Redriven[]> {
    return (await this.#ask<RedrivenEntries>("dead-letters/redrive", redrive)).results;
  }

  async consumers(): Promise<GroupConsumer[]> {
    const consumers: GroupConsumer[] = [];
    const all = this.context.rest.items<GroupConsumer>(`${this.#path}/consumers`, "consumers");
    for await (const consumer of all) consumers.push(consumer);
    return consumers;
  }

  /** Returns the keys of a fair group, each with its waiting entries, their age, and its share of the last minute. */
  async keys(query: { order?: "waiting" | "age"; limit?: number } = {}): Promise<GroupKey[]> {
    return (await this.context.rest.ask<GroupKeys>("GET", `${this.#path}/keys`, { query })).keys;
  }

  /**
   * Deletes a consumer. Returns the number of entries that it held. By default, they are released to other consumers.
   */
  async deleteConsumer(consumer: string, pending: "release" | "drop" = "release"): Promise<number> {
    const place = this.#path + path`/consumers/${consumer}`;
    return (await this.context.rest.ask<DeletedConsumer>("DELETE", place, { query: { pending } })).pending;
  }

  get #path(): string {
    return path`/v1/streams/${this.stream}/groups/${this.name}`;
  }

  #ask<T>(verb: string, body: unknown, { consumer, signal }: Named = {}): Promise<T> {
    return this.context.rest.ask("POST", `${this.#path}/${verb}`, { query: { consumer }, body, signal });
  }
}
