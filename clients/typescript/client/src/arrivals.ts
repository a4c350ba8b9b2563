/** Arrivals: items that have arrived, for a loop that waits for them. */

export class Arrivals<T> {
  readonly #queue: T[] = [];
  #wake = () => {};
  #isOver = false;
  #error: Error | undefined;

  constructor(
    private readonly signal: AbortSignal | undefined,
    private readonly take = () => this.#queue.shift(),
  ) {
    signal?.addEventListener("abort", this.#stop);
  }

  add(item: T): void {
    this.#queue.push(item);
    this.come();
  }

  /** Signals that there may be an item to take. */
  come(): void {
    this.#wake();
  }

  /** Signals that no more items arrive, for this reason. */
  end(error?: Error): void {
    this.#isOver = true;
    this.#error = error;
    this.#wake();
  }

  /** Returns the next item; undefined after the end, or if the signal is aborted. */
  async next(): Promise<T | undefined> {
    while (!this.signal?.aborted) {
      const item = this.take();
      if (item !== undefined) return item;
      if (this.#error) throw this.#error;
      if (this.#isOver) break;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
    return undefined;
  }

  close(): void {
    this.signal?.removeEventListener("abort", this.#stop);
  }

  readonly #stop = () => this.#wake();
}
