/** Job: an entry delivered to a consumer, until it is settled. */
import type { Duration, Settling, Steps } from "./steps.js";
import type { CommitStep, FieldMap, Delivery, Outcome } from "./wire/types.js";

/** Modes of a nack: `fail` counts as tried in vain, `silent` does not, `fatal` is never tried again. */
export interface NackOptions {
  mode?: "silent" | "fail" | "fatal";
  /** Nobody gets it before that; the group's policy says how long otherwise. */
  delayMs?: number;
  /** Error of the consumer: it comes as `lastError` with the next delivery, and stands in the dead letter; 1,000 bytes of it. */
  error?: unknown;
}

/** The error of a consumer, as the gateway keeps it. */
export const errorText = (error: unknown): string | null =>
  error == null ? null : new TextDecoder().decode(new TextEncoder().encode(String(error)).subarray(0, 1000));

/** The settler of jobs. */
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
  /** Its stream, if several are read together. */
  readonly stream: string | undefined;
  /** @internal Its id, behind its stream if several are read: ids may be equal there. */
  readonly key: string;
  readonly fields: FieldMap;
  /** Number of its deliveries, this one included; greater if it has come again after a reconnection. */
  deliveries: number;
  readonly idleMs: number;
  /** Its owner before, if it was claimed. */
  readonly claimedFrom: string | undefined;
  /** Why it was given back before, if that is known. */
  readonly lastError: string | undefined;
  /** The whole delivery, with `base64` and `pairs`. */
  readonly delivery: Delivery;
  /** Whether it was acknowledged or given back. */
  isSettled = false;
  /** Whether it belongs to another consumer now, or to nobody: what is done for it is done in vain. */
  isLost = false;
  #losing: AbortController | undefined;
  #steps: Steps | undefined;

  /** @internal */
  constructor(
    delivery: Delivery & { stream?: string },
    private readonly settler: Settler,
    /** @internal The connection that it came over, by number. */
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

  /** Aborted when the job is lost: another consumer has claimed it. */
  get signal(): AbortSignal {
    this.#losing ??= new AbortController();
    if (this.isLost) this.#losing.abort();
    return this.#losing.signal;
  }

  /** Say that it is done; returns what became of it. */
  ack(): Promise<Outcome> {
    return this.settler.ack(this);
  }

  /** Give it back; the next consumer gets it, or it becomes a dead letter. */
  nack(options: NackOptions = {}): Promise<Outcome> {
    return this.settler.nack(this, options);
  }

  /**
   * Carry out steps and acknowledge it, together or not at all; returns the ids that each step has appended.
   * A crash leaves all of it or nothing.
   * @throws NotYours if it is somebody else's by now: it is lost, and nothing has changed
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
   * Do something once, whatever becomes of this program; returns its result, which is remembered as JSON until the entry
   * is settled. The next worker gets the result without calling the function again. Only what happens outside may happen
   * twice, if this program dies before the result is remembered: pass a key on, such as `job.id`.
   * @throws NotYours if it is somebody else's by now
   */
  step<T>(name: string, act: () => T | Promise<T>): Promise<T> {
    return this.#remembered.step(name, act);
  }

  /**
   * Go on later: the entry is given back, and its handler begins again after that time. What was done by `step` is not
   * done again. It throws `Paused`, which ends the handler: let it pass.
   */
  sleep(duration: Duration): Promise<void> {
    return this.#remembered.sleep(duration);
  }

  /**
   * Go on once somebody has signalled a key (`Group.signal`); returns its value. The entry is given back meanwhile, as by
   * `sleep`.
   * @throws DOMException `TimeoutError` if nobody has signalled it within that time
   */
  waitFor<T>(key: string, within: Duration): Promise<T> {
    return this.#remembered.waitFor(key, within);
  }

  get #remembered(): Steps {
    return (this.#steps ??= this.settler.stepsOf(this));
  }

  /** Say that it is still being worked on; jobs that you hold are extended by themselves. */
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
