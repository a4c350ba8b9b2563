/** Addresses: the URLs of the gateways on one bucket. Requests go to the current one. */
import { backoffMs } from "./backoff.js";
import { Problem } from "./problem.js";

export class Addresses {
  /** The token is sent only to these URLs: a leader that is not in the list is not followed. */
  readonly urls: readonly string[];
  current: string;
  #named: string | undefined; // the leader that was named last

  /** URLs without a scheme use `http`. Several URLs are a list, or separated by commas. */
  constructor(given: string | readonly string[]) {
    const texts = String(given).match(/[^\s,]+/g)!;
    this.urls = texts.map((text) => (text.includes("://") ? text : `http://${text}`).replace(/\/+$/, ""));
    this.current = this.urls[0]!;
  }

  /**
   * Notes that an attempt at a URL failed. `attempt` counts from 0. Returns the pause before the next attempt, which
   * goes to another URL if there was no answer or the gateway does not lead. There is no pause until all URLs were
   * tried. A standby may name a leader that is gone, so the same name is followed only once.
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
