/** Worker: runs a handler for each job of a group, with limited concurrency, and drains on request. */
import type { ConsumeOptions, Consumer } from "./consumer.js";
import type { Job } from "./job.js";
import { Paused } from "./steps.js";
import { Disconnected } from "./wire/problem.js";

export type Handler = (job: Job) => unknown;
export type OnError = (error: unknown, job: Job) => void;

export interface WorkOptions extends ConsumeOptions {
  /** Number of concurrent jobs. Default: 16. */
  concurrency?: number;
  /**
   * Called with each error of the handler; the job is given back as failed. Default: prints the error to the console.
   */
  onError?: OnError;
  /** In Node, signals of the process that drain the worker. Default: SIGTERM and SIGINT. */
  signals?: string[];
}

interface Process {
  once(name: string, listener: () => void): void;
  off(name: string, listener: () => void): void;
}

export class Worker {
  /**
   * Resolves when all jobs that were begun are done and the gateway knows it. Rejects when the group can no longer be
   * read.
   */
  readonly finished: Promise<void>;
  #running = 0;
  #isDraining = false;
  #closing: Promise<void> | undefined;
  #resolve!: () => void;
  #reject!: (error: Error) => void;

  constructor(
    private readonly consumer: Consumer,
    private readonly handler: Handler,
    private readonly concurrency: number,
    private readonly onError: OnError,
  ) {
    this.finished = new Promise((resolve, reject) => ([this.#resolve, this.#reject] = [resolve, reject]));
    consumer.onJobs = () => this.#pump();
    consumer.onEnd = (error) => (error ? this.#reject(error) : this.#resolve());
  }

  /** Begins no more jobs. Running jobs finish and are acknowledged. */
  drain(): void {
    if (this.#isDraining) return;
    this.#isDraining = true;
    this.#pump();
  }

  #pump(): void {
    while (!this.#isDraining && this.#running < this.concurrency) {
      const job = this.consumer.take();
      if (!job) return;
      this.#running += 1;
      void this.#run(job);
    }
    if (this.#isDraining && this.#running === 0) this.#closing ??= this.consumer.close().then(this.#resolve);
  }

  async #run(job: Job): Promise<void> {
    try {
      await this.handler(job);
      if (job.hasSteps && !job.isSettled) await job.commit([]);
      this.consumer.finish(job);
    } catch (error) {
      if (!(error instanceof Paused)) await this.#fail(job, error);
    }
    this.#running -= 1;
    this.#pump();
  }

  async #fail(job: Job, error: unknown): Promise<void> {
    this.onError(error, job);
    if (job.isSettled || job.isLost) return;
    await job.nack({ error }).catch((reason: unknown) => {
      if (!(reason instanceof Disconnected)) this.onError(reason, job); // otherwise it goes back with the connection
    });
  }
}

/** Drains a worker when the signal is aborted or the process is asked to end. Returns a function that stops this. */
export function drainOn(worker: Worker, { signal, signals = ["SIGTERM", "SIGINT"] }: WorkOptions): () => void {
  const { process } = globalThis as { process?: Partial<Process> };
  const drain = () => worker.drain();
  if (signal?.aborted) drain();
  signal?.addEventListener("abort", drain);
  for (const name of signals) process?.once?.(name, drain);
  return () => {
    signal?.removeEventListener("abort", drain);
    for (const name of signals) process?.off?.(name, drain);
  };
}
