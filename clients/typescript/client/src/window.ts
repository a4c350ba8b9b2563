/** Window: the credit of a subscription, so that a limited number of items waits for the program. */
import type { Context } from "./context.js";

export class CreditWindow {
  #available = 0; // items that the gateway may still send
  #untaken = 0; // items that wait here

  constructor(
    private readonly context: Context,
    private readonly sub: string,
    private readonly limit = 512,
  ) {}

  /** Returns the credit for the start of a subscription. */
  begin(): number {
    return (this.#available = Math.max(1, this.limit - this.#untaken));
  }

  came(items: number): void {
    this.#available -= items;
    this.#untaken += items;
  }

  /** Signals that this many items have been taken. */
  taken(items: number): void {
    this.#untaken -= items;
    const credit = this.limit - this.#untaken - this.#available;
    if (credit < this.limit / 2) return;
    this.#available += credit;
    this.context.line.credit(this.sub, credit);
  }
}
