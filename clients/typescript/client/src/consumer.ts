/**
 * Consumer: reads as a consumer of a group, and settles what it is sent.
 *
 * - Acks are gathered, and sent in one frame per turn of the event loop, and not before the last frame is answered.
 * - Jobs in hand are extended every third of the time after which others may claim them.
 * - When the connection is lost, jobs that wait go to others or come again; what comes again while it is
 *   still in hand is not begun twice, and what was done meanwhile is acknowledged.
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
  /** Name of the consumer; without one the gateway makes one, and removes it in the end. */
  consumer?: string;
  /** Number of unsettled entries that may be here. */
  credit?: number;
  /** Also take entries pending with anybody and idle for so long; the group's policy says it otherwise. */
  claimIdleMs?: number;
  /** Treatment of unsettled entries when the connection ends: they go back at once, or wait for you. */
  onDisconnect?: OnDisconnect;
  /** Others have these now. */
  onClaimed?: (ids: string[], by: string) => void;
  onState?: (state: LiveState) => void;
  /** Ends it, once what is in hand is settled. */
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
  /** Called when there may be something to `take`. */
  onJobs: () => void = () => {};
  onEnd: (error?: Error) => void = () => {};
  readonly sub: string;
  #name: string | undefined; // of this consumer
  readonly #queue: Job[] = [];
  readonly #inHand = new Map<string, Job>();
  /** Done, and not known to be acknowledged, as the connection was lost. */
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
    /** Returns what holds for the group, if it is known. */
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

  /** Return the next job to begin with. */
  take(): Job | undefined {
    for (let job = this.#queue.shift(); job; job = this.#queue.shift()) {
      if (job.isLost) continue;
      this.#inHand.set(job.key, job);
      return job;
    }
    return undefined;
  }

  /** End, once everything that was settled has arrived; what was not goes back. */
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
    if (state === "caught_up") this.#done.clear(); // what was to come again has come
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

  /** Acknowledge a job, without waiting; if that cannot be said now, it is said when the job comes again. */
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
    if (job.isSettled) throw new Error("the job is settled");
    const { deliveries } = job;
    const isForLater = typeof settling === "object";
    if (isForLater) this.#inHand.delete(job.key); // it may be here again before the answer
    try {
      const ids = await commit(this.context, [...steps, this.#own(job, settling)], { consumer: this.#name });
      if (settling !== "extend") this.#settles(job);
      return ids.slice(0, -1);
    } catch (error) {
      if (!(error instanceof NotYours)) throw error;
      if (job.deliveries !== deliveries) return await this.commit(job, steps, settling); // it has come again meanwhile
      this.#drop(job);
      job.lose();
      throw error;
    } finally {
      // The connection counts it as held until it is asked about: then its credit comes back.
      if (job.isSettled || job.isLost) this.extend(job).catch(() => {});
    }
  }

  /** Return the step that settles a job, or extends it. */
  #own({ id, deliveries, stream = this.names.stream! }: Job, settling: Settling): CommitStep {
    const place: [string, string, string[]] = [stream, this.names.group!, [id]];
    const fence = { deliveries: [deliveries] };
    if (settling === "ack") return ack(...place, fence);
    if (settling === "extend") return extend(...place, fence);
    return nack(...place, { mode: "silent", delayMs: settling.laterMs, ...fence });
  }

  /** Return the steps of a job; they are kept in a table beside its group. */
  stepsOf(job: Job): Steps {
    const table = new StepTable(this.context, job.stream ?? this.names.stream!, this.names.group!);
    return new Steps(table, job.id, (steps, settling) => this.commit(job, steps, settling));
  }

  /** Take a job out of the hand; false if it was settled before. */
  #settles(job: Job): boolean {
    if (job.isSettled) return false;
    this.#drop(job);
    return (job.isSettled = true);
  }

  /** Have a job in hand no more; another one of the same entry stays. */
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
      if (this.#isClosed || !(error instanceof Problem)) return; // the next connection asks again
      void this.close();
      this.ended(error);
    }
  }

  #extendAll(): void {
    const held = [...this.#inHand.values()].filter((job) => job.connection === this.#connection);
    for (const { keys: _, ...ids } of of(held.map(({ key }) => key))) {
      // An entry that is lost meanwhile is told by `claimed`, or comes again.
      this.context.line.settle({ type: "extend", sub: this.sub, ...ids }).catch(() => {});
    }
  }
}

const named = ({ id, stream }: Job): { ids: string[]; stream?: string } => ({ ids: [id], ...(stream !== undefined && { stream }) });

/** Return the parts of frames that name these entries, of one stream each. */
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
  return new Disconnected("the connection of the job was lost; it comes again");
}
