/**
 * Consumer: reads as a consumer of a group, and settles the entries that it receives.
 *
 * - Acks are collected. One frame is sent per turn of the event loop, and only after the previous frame is answered.
 * - Jobs in hand are extended at intervals of a third of the idle time after which other consumers may claim them.
 * - When the connection is lost, waiting jobs go to other consumers or are delivered again. A job that is delivered
 *   again while it is in hand is not begun twice. If it was finished meanwhile, it is acknowledged.
 */
import { ack, commit, extend, nack } from "./commit.js";
import type { Context } from "./context.js";
import type { Entries, StreamDelivery, Subscribed } from "./wire/frames.js";
import { errorText, Job, keyOf, type NackOptions, type Settler } from "./job.js";
import type { LiveState, Settlement, Subscriber, Wanted } from "./live/line.js";
import { type ConnectionOptions, Subscription } from "./live/subscription.js";
import { type Settling, Steps, StepTable } from "./steps.js";
import { fromWire } from "./wire/names.js";
import { Disconnected, NotYours, Problem } from "./wire/problem.js";
import type { CommitStep, Delivery, OnDisconnect, Outcome } from "./wire/types.js";

export interface ConsumeOptions extends ConnectionOptions {
  /** Name of the consumer. Default: the gateway generates one, and removes it at the end. */
  consumer?: string;
  /** Maximum number of unsettled entries in this program. Default: 64; `work` uses twice `concurrency`, at least 64. */
  credit?: number;
  /** Also claim entries of any consumer that have been idle for this long. Default: the policy of the group. */
  claimIdleMs?: number;
  /**
   * What to do with unsettled entries when the connection ends: release them at once, or keep them for this consumer.
   */
  onDisconnect?: OnDisconnect;
  /** Called with the ids of entries that another consumer has claimed, and that consumer. */
  onClaimed?: (ids: string[], by: string) => void;
  onState?: (state: LiveState) => void;
  /** Ends the subscription after the jobs in hand are settled. */
  signal?: AbortSignal;
}

type Frame = Omit<StreamDelivery, "stream"> & { stream?: string };

interface Ack {
  key: string;
  resolve?: (outcome: Outcome) => void;
  reject?: (error: unknown) => void;
}

const soon: (work: () => void) => unknown =
  (globalThis as { setImmediate?: (work: () => void) => unknown }).setImmediate ?? ((work) => setTimeout(work, 0));

export class Consumer extends Subscription implements Subscriber, Settler {
  /** Called when there may be a job to `take`. */
  onJobs: () => void = () => {};
  onEnd: (error?: Error) => void = () => {};
  readonly sub: string;
  #name: string | undefined; // name of this consumer
  readonly #queue: Job[] = [];
  readonly #inHand = new Map<string, Job>();
  /** Jobs that are done, but not known to be acknowledged because the connection was lost. */
  readonly #done = new Set<string>();
  #acks: Ack[] = [];
  #isAcking = false;
  #isClosed = false;
  #connection = 0;
  #extending: ReturnType<typeof setInterval> | undefined;

  constructor(
    private readonly context: Context,
    private readonly names: Wanted,
    private readonly options: ConsumeOptions,
    /** Returns the idle time after which other consumers may claim, if known for the group. */
    private readonly claimIdleMs: () => Promise<number | undefined>,
  ) {
    super(options);
    this.sub = context.nextSub();
  }

  get isBusy(): boolean {
    return this.#inHand.size > 0 || this.#acks.length > 0;
  }

  open(): void {
    if (!this.#isClosed) this.context.line.add(this.sub, this);
  }

  /** Returns the next job to begin. */
  take(): Job | undefined {
    for (let job = this.#queue.shift(); job; job = this.#queue.shift()) {
      if (job.isLost) continue;
      this.#inHand.set(job.key, job);
      return job;
    }
    return undefined;
  }

  /** Ends the subscription after all outcomes were sent and answered. Unsettled jobs go back. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#extending);
    this.#send();
    await this.context.line.remove(this.sub);
  }

  wanted(): Wanted {
    const { consumer, credit = 64, claimIdleMs, onDisconnect } = this.options;
    return {
      ...this.names, credit, auto_credit: true,
      consumer: consumer ?? null, claim_idle_ms: claimIdleMs ?? null, on_disconnect: onDisconnect ?? null,
    };
  }

  override subscribed(frame: Subscribed): void {
    super.subscribed(frame);
    this.#name = frame.consumer ?? undefined;
    void this.#keepExtending();
  }

  entries({ entries }: Entries): void {
    for (const frame of entries as Frame[]) {
      const key = keyOf(frame);
      const job = this.#inHand.get(key);
      if (job) job.cameAgain(frame.deliveries, this.#connection);
      else if (this.#done.delete(key)) this.#acknowledge({ key });
      else this.#queue.push(new Job(fromWire<Delivery>(frame), this, this.#connection));
    }
    this.onJobs();
  }

  state(state: LiveState): void {
    if (state === "caught_up") this.#done.clear(); // all redeliveries have arrived
    this.options.onState?.(state);
  }

  claimed(ids: string[], by: string): void {
    const gone = new Set(ids);
    for (const job of [...this.#queue, ...this.#inHand.values()]) if (gone.has(job.id)) job.lose();
    this.options.onClaimed?.(ids, by);
  }

  override lost(error?: Error): void {
    super.lost(error);
    this.#letGo();
  }

  #letGo(): void {
    this.#connection += 1;
    for (const job of this.#queue.splice(0)) job.lose();
  }

  override ended(error?: Error): void {
    super.ended(error);
    this.#isClosed = true;
    clearInterval(this.#extending);
    this.#letGo();
    this.onEnd(error);
  }

  /** Acknowledges a job without waiting. If that is not possible now, it is done when the job is delivered again. */
  finish(job: Job): void {
    if (!this.#settles(job) || job.isLost) return;
    if (job.connection === this.#connection) this.#acknowledge({ key: job.key });
    else this.#done.add(job.key);
  }

  ack(job: Job): Promise<Outcome> {
    this.#settles(job);
    if (job.connection !== this.#connection) return Promise.reject(stale());
    return new Promise((resolve, reject) => this.#acknowledge({ key: job.key, resolve, reject }));
  }

  nack(job: Job, { mode = "fail", delayMs, error }: NackOptions): Promise<Outcome> {
    this.#settles(job);
    return this.#settle(job, {
      type: "nack", sub: this.sub, ...named(job), mode, delay_ms: delayMs ?? null, error: errorText(error),
    });
  }

  extend(job: Job): Promise<Outcome> {
    return this.#settle(job, { type: "extend", sub: this.sub, ...named(job) });
  }

  async commit(job: Job, steps: CommitStep[], settling: Settling): Promise<string[][]> {
    if (job.isSettled) throw new Error("this job is already settled");
    const { deliveries } = job;
    const isForLater = typeof settling === "object";
    if (isForLater) this.#inHand.delete(job.key); // it may be delivered again before the answer
    try {
      const ids = await commit(this.context, [...steps, this.#own(job, settling)], { consumer: this.#name });
      if (settling !== "extend") this.#settles(job);
      return ids.slice(0, -1);
    } catch (error) {
      if (!(error instanceof NotYours)) throw error;
      if (job.deliveries !== deliveries) return await this.commit(job, steps, settling); // delivered again meanwhile
      this.#drop(job);
      job.lose();
      throw error;
    } finally {
      // The connection counts it as held until it is extended. Then its credit is returned.
      if (job.isSettled || job.isLost) this.extend(job).catch(() => {});
    }
  }

  /** Returns the step that settles a job or extends it. */
  #own({ id, deliveries, stream = this.names.stream! }: Job, settling: Settling): CommitStep {
    const place: [string, string, string[]] = [stream, this.names.group!, [id]];
    const fence = { deliveries: [deliveries] };
    if (settling === "ack") return ack(...place, fence);
    if (settling === "extend") return extend(...place, fence);
    return nack(...place, { mode: "silent", delayMs: settling.laterMs, ...fence });
  }

  /** Returns the steps of a job. They are stored in a table of its group. */
  stepsOf(job: Job): Steps {
    const table = new StepTable(this.context, job.stream ?? this.names.stream!, this.names.group!);
    return new Steps(table, job.id, (steps, settling) => this.commit(job, steps, settling));
  }

  /** Removes a job from the jobs in hand. Returns false if it was settled before. */
  #settles(job: Job): boolean {
    if (job.isSettled) return false;
    this.#drop(job);
    return (job.isSettled = true);
  }

  /** Removes a job from the jobs in hand, but not another job of the same entry. */
  #drop(job: Job): void {
    if (this.#inHand.get(job.key) === job) this.#inHand.delete(job.key);
  }

  async #settle(job: Job, frame: Settlement): Promise<Outcome> {
    if (job.connection !== this.#connection) throw stale();
    return (await this.context.line.settle(frame))[0]!.outcome;
  }

  #acknowledge(ack: Ack): void {
    if (this.#acks.push(ack) === 1) soon(() => this.#flush());
  }

  #flush(): void {
    if (!this.#isAcking) this.#send();
  }

  #send(): void {
    const acks = this.#acks;
    if (acks.length === 0) return;
    this.#acks = [];
    this.#isAcking = true;
    const sent = new Map(acks.map((ack) => [ack.key, ack]));
    const settled = of([...sent.keys()]).map(({ keys, ...ids }) =>
      this.context.line.settle({ type: "ack", sub: this.sub, ...ids }).then(
        (results) => keys.forEach((key, index) => sent.get(key)!.resolve?.(results[index]!.outcome)),
        (error) => keys.forEach((key) => (sent.get(key)!.reject ?? (() => this.#done.add(key)))(error)),
      ),
    );
    void Promise.all(settled).then(() => {
      this.#isAcking = false;
      this.#flush();
    });
  }

  async #keepExtending(): Promise<void> {
    if (this.#extending) return;
    try {
      const claimIdleMs = this.options.claimIdleMs ?? (await this.claimIdleMs());
      clearInterval(this.#extending);
      if (claimIdleMs && !this.#isClosed) this.#extending = setInterval(() => this.#extendAll(), claimIdleMs / 3);
    } catch (error) {
      if (this.#isClosed || !(error instanceof Problem)) return; // the next connection tries again
      void this.close();
      this.ended(error);
    }
  }

  #extendAll(): void {
    const held = [...this.#inHand.values()].filter((job) => job.connection === this.#connection);
    for (const { keys: _, ...ids } of of(held.map(({ key }) => key))) {
      // If an entry was lost meanwhile, `claimed` reports it, or it is delivered again.
      this.context.line.settle({ type: "extend", sub: this.sub, ...ids }).catch(() => {});
    }
  }
}

const named = ({ id, stream }: Job): { ids: string[]; stream?: string } => ({ ids: [id], ...(stream !== undefined && { stream }) });

/** Returns the parts of frames that name these entries, each for one stream. */
function of(keys: string[]): { keys: string[]; ids: string[]; stream?: string }[] {
  const byStream = new Map<string, string[]>();
  for (const key of keys) {
    const stream = key.slice(0, Math.max(key.lastIndexOf("\n"), 0));
    byStream.get(stream)?.push(key) ?? byStream.set(stream, [key]);
  }
  return [...byStream].map(([stream, keys]) => ({
    keys, ids: keys.map((key) => key.slice(key.lastIndexOf("\n") + 1)), ...(stream && { stream }),
  }));
}

function stale(): Error {
  return new Disconnected("the connection of the job was lost; it is delivered again");
}
