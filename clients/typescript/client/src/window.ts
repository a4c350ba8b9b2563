/** Window: how many items of a subscription may come, so that a bounded number waits for the program. */
import type { Context } from "./context.js";

export class CreditWindow {
  #available = 0; // what the gateway may still send
  #untaken = 0; // what waits here

  constructor(
    private readonly context: Context,
    private readonly sub: string,
    private readonly limit = 512,
  ) {}

  /** Return the credit that a subscription begins with. */
  begin(): number {
    return (this.#available = Math.max(1, this.limit - this.#untaken));
  }

  came(items: number): void {
    this.#available -= items;
    this.#untaken += items;
  }

  /** Say that so many items need no place here any more. */
  taken(items: number): void {
    this.#untaken -= items;
    const credit = this.limit - this.#untaken - this.#available;
    if (credit < this.limit / 2) return;
    this.#available += credit;
    this.context.line.credit(this.sub, credit);
  }
}
