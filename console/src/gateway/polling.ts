/** Polling: something the gateway is asked again and again, while somebody looks. */
import { effect, type ReadonlySignal, signal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { asked } from "./key.js";
import { Problem } from "./problem.js";

export interface Polled<T> {
  /** The last answer. */
  readonly data: ReadonlySignal<T | undefined>;
  /** Why there is no newer one. */
  readonly problem: ReadonlySignal<Problem | undefined>;
  /** Ask now. */
  refresh(): void;
}

/** Counts what was changed here, so that everything that is shown is asked for again. */
export const changes = signal(0);

/** Whether somebody sees this page. */
export const isSeen = signal(document.visibilityState === "visible");
document.addEventListener("visibilitychange", () => (isSeen.value = document.visibilityState === "visible"));

/** Ask for something now, every so often, and after each change; `of` says of what, so that another starts anew. */
export function usePolled<T>(ask: (signal: AbortSignal) => Promise<T>, everyMs: number, of: string): Polled<T> {
  const asking = useRef(ask);
  asking.current = ask;
  const poll = useMemo(() => new Poll<T>((signal) => asking.current(signal), everyMs), [of, everyMs]);
  useEffect(() => poll.run(), [poll]);
  return poll;
}

class Poll<T> implements Polled<T> {
  readonly data = signal<T>();
  readonly problem = signal<Problem>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #asking: AbortController | undefined;

  constructor(
    private readonly ask: (signal: AbortSignal) => Promise<T>,
    private readonly everyMs: number,
  ) {}

  run(): () => void {
    const stop = effect(() => {
      const isOn = isSeen.value && asked.value === undefined && changes.value >= 0;
      if (isOn) this.refresh();
      else this.#stop();
    });
    return () => (stop(), this.#stop());
  }

  refresh(): void {
    this.#stop();
    void this.#once((this.#asking = new AbortController()));
  }

  async #once(asking: AbortController): Promise<void> {
    try {
      const answer = await this.ask(asking.signal);
      if (asking.signal.aborted) return;
      this.data.value = answer;
      this.problem.value = undefined;
    } catch (error) {
      if (asking.signal.aborted) return;
      if (!(error instanceof Problem)) throw error;
      this.problem.value = error;
    }
    if (Number.isFinite(this.everyMs)) this.#timer = setTimeout(() => this.refresh(), this.everyMs);
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#asking?.abort();
  }
}
