/** Job: a delivery of an entry to a consumer, until it is settled. */
import type { Duration, Settling, Steps } from "./steps.js";
import type { CommitStep, FieldMap, Delivery, Outcome } from "./wire/types.js";

/**
 * Options of a nack. `mode`: `fail` counts as a failed delivery, `silent` does not, and `fatal` is never tried again.
 */
export interface NackOptions {
  mode?: "silent" | "fail" | "fatal";
  /** Delay before the next delivery. Default: the policy of the group. */
  delayMs?: number;
  /** What went wrong. The next delivery has it in `lastError`, and the dead letter has it. Cut to 1,000 bytes. */
  error?: unknown;
}

/** Returns an error as the gateway stores it. */
export const errorText = (error: unknown): string | null =>
  error == null ? null : new TextDecoder().decode(new TextEncoder().encode(String(error)).subarray(0, 1000));

/** Settles jobs. */
export interface Settler {
  ack(job: Job): Promise<Outcome>;
  nack(job: Job, options: NackOptions): Promise<Outcome>;
  extend(job: Job): Promise<Outcome>;
  commit(job: Job, steps: CommitStep[], settling: Settling): Promise<string[][]>;
  stepsOf(job: Job): Steps;
}

export const keyOf = ({ id, stream }: { id: string; stream?: string | undefined }): string =>
  stream === undefined ? id : `${stream}\n${id}`;

export class Job {
  readonly id: string;
  /** Stream of the entry, if several are read together. */
  readonly stream: string | undefined;
  /** @internal Id of the entry, prefixed with its stream if several are read: ids can repeat. */
  readonly key: string;
  readonly fields: FieldMap;
  /** Number of deliveries, including this one. It increases if the job is delivered again after a reconnection. */
  deliveries: number;
  readonly idleMs: number;
  /** The previous consumer, if the entry was claimed. */
  readonly claimedFrom: string | undefined;
  /** Error of the previous delivery, if known. */
  readonly lastError: string | undefined;
  /** The complete delivery, with `base64` and `pairs`. */
  readonly delivery: Delivery;
  /** Whether the job was acknowledged or given back. */
  isSettled = false;
  /** Whether the entry no longer belongs to this consumer. Further work on it is wasted. */
  isLost = false;
  #losing: AbortController | undefined;
  #steps: Steps | undefined;

  /** @internal */
  constructor(
    delivery: Delivery & { stream?: string },
    private readonly settler: Settler,
    /** @internal Number of the connection that delivered it. */
    public connection: number,
  ) {
    this.delivery = delivery;
    this.id = delivery.id;
    this.stream = delivery.stream;
    this.key = keyOf(delivery);
    this.fields = delivery.fields;
    this.deliveries = delivery.deliveries;
    this.idleMs = delivery.idleMs;
    this.claimedFrom = delivery.claimedFrom ?? undefined;
    this.lastError = delivery.lastError ?? undefined;
  }

  /** Aborted when the job is lost because another consumer has claimed it. */
  get signal(): AbortSignal {
    this.#losing ??= new AbortController();
    if (this.isLost) this.#losing.abort();
    return this.#losing.signal;
  }

  /** Acknowledges the job. Returns the outcome. */
  ack(): Promise<Outcome> {
    return this.settler.ack(this);
  }

  /** Gives the job back. It is delivered to the next consumer, or becomes a dead letter. */
  nack(options: NackOptions = {}): Promise<Outcome> {
    return this.settler.nack(this, options);
  }

  /**
   * Executes all steps and acknowledges the job, or does nothing. Returns the ids of the entries that each step
   * appended. After a crash, either everything was committed or nothing.
   * @throws NotYours if the entry no longer belongs to this consumer: the job is lost, and nothing has changed
   */
  async commit(steps: CommitStep[]): Promise<string[][]> {
    const made = await this.settler.commit(this, [...steps, ...(this.#steps?.removed() ?? [])], "ack");
    return made.slice(0, steps.length);
  }

  /** @internal Whether it has steps, which the commit that acknowledges it removes. */
  get hasSteps(): boolean {
    return this.#steps !== undefined;
  }

  /**
   * Runs a function once, even if this program crashes. Returns its result, which is stored as JSON until the entry is
   * settled. If this program crashes, the next one gets the result without calling the function again. If it crashes
   * before the result is stored, the function runs again: pass an idempotency key, such as `job.id`, to external
   * services.
   * @throws NotYours if the entry no longer belongs to this consumer
   */
  step<T>(name: string, act: () => T | Promise<T>): Promise<T> {
    return this.#remembered.step(name, act);
  }

  /**
   * Gives the entry back, and runs its handler again after this time. In the next run, steps that were done with `step`
   * are not repeated, and this sleep returns at once. Throws `Paused`, which ends the handler: do not catch it.
   */
  sleep(duration: Duration): Promise<void> {
    return this.#remembered.sleep(duration);
  }

  /**
   * Waits until a key is signalled (`Group.signal`). Returns the value of the signal. Meanwhile the entry is given
   * back, as with `sleep`.
   * @throws DOMException `TimeoutError` if the key was not signalled within this time
   */
  waitFor<T>(key: string, within: Duration): Promise<T> {
    return this.#remembered.waitFor(key, within);
  }

  get #remembered(): Steps {
    return (this.#steps ??= this.settler.stepsOf(this));
  }

  /** Restarts the idle time of the entry. The client extends jobs that you hold automatically. */
  extend(): Promise<Outcome> {
    return this.settler.extend(this);
  }

  /** @internal */
  cameAgain(deliveries: number, connection: number): void {
    this.deliveries = deliveries;
    this.connection = connection;
  }

  /** @internal */
  lose(): void {
    this.isLost = true;
    this.#losing?.abort();
  }
}
