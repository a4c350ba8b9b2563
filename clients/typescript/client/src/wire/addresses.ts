/** Addresses: the URLs of the gateways on one bucket. Requests go to the current one. */
import { backoffMs } from "./backoff.js";
import { Problem } from "./problem.js";

export class Addresses {
  /** A token goes to no other URL than these: a leader that is not among them is not followed. */
  readonly urls: readonly string[];
  current: string;
  #named: string | undefined; // the leader that a standby has named last

  /** Without a scheme it is `http`; several stand in a list, or with commas between them. */
  constructor(given: string | readonly string[]) {
    const texts = String(given).match(/[^\s,]+/g)!;
    this.urls = texts.map((text) => (text.includes("://") ? text : `http://${text}`).replace(/\/+$/, ""));
    this.current = this.urls[0]!;
  }

  /**
   * Note that an attempt at a URL has failed, the first being 0; returns the pause before the next one. That
   * goes to another URL if nobody answered, or one who does not lead: there is no pause before all were tried.
   * A standby may name a leader that is gone, so each naming is followed once.
   */
  failedMs(attempt: number, url: string, error?: unknown): number {
    const { urls, current } = this;
    const problem = error instanceof Problem ? error : undefined;
    const waitMs = problem?.retryAfterMs;
    if (problem && problem.status !== 503) return waitMs || backoffMs(attempt);
    if (url === current) {
      const named = urls.find((each) => each !== url && `${problem?.details.leader}/`.startsWith(`${each}/`));
      this.current = named && named !== this.#named ? (this.#named = named) : urls[(urls.indexOf(url) + 1) % urls.length]!;
    }
    return (attempt + 1) % urls.length ? 0 : waitMs || backoffMs(urls[1] ? 1 : attempt);
  }
}
