/** Credentials: the token, and a fresh token before the current one ends or when it is refused. */
import { backoffMs, waited } from "./backoff.js";
import { Disconnected } from "./problem.js";

/** A key or a token, or a function that returns a fresh one on each call. */
export type Token = string | (() => string | Promise<string>);

const RENEW_AHEAD_MS = 60_000;
const RENEW_MS_MIN = 1000;
const TIMER_MS_MAX = 2 ** 31 - 1;
/** Maximum pause before a function that failed is called again. */
const QUIET_MS_MAX = 5000;
/** Timeout for the function. */
const ANSWER_MS_MAX = 30_000;

/** Returns the time before the renewal of a token that is valid for `leftMs`. */
export function renewMs(leftMs: number): number {
  const waitMs = Math.max(leftMs - RENEW_AHEAD_MS, leftMs / 2);
  return Math.min(TIMER_MS_MAX, Math.max(RENEW_MS_MIN, waitMs));
}

export class Credentials {
  /** Why there is no fresh token although one is needed. */
  failure: Error | undefined;
  #token: string | undefined;
  #endsAt = Infinity;
  #renewAt = Infinity;
  #failures = 0;
  #quietUntil = 0;
  #coming: Promise<string> | undefined;

  /** `report` is called when the function begins to fail. */
  constructor(
    private readonly source: Token | undefined,
    private readonly report: (error: Error) => void,
  ) {}

  /** Whether another token can follow this one. */
  get canRenew(): boolean {
    return typeof this.source === "function";
  }

  /** Time until the token must be renewed, at most the maximum of a timer. */
  get renewInMs(): number {
    return Math.min(TIMER_MS_MAX, this.#renewAt - Date.now());
  }

  /**
   * Returns the current token, or a fresh one if it is about to end; undefined if no token is needed.
   * @throws Disconnected if there is no token
   */
  async current(): Promise<string | undefined> {
    if (typeof this.source !== "function") return this.source;
    if (Date.now() < this.#renewAt && this.#token !== undefined) return this.#token;
    return this.#fresh().catch((error: unknown) => {
      if (this.#token === undefined || Date.now() >= this.#endsAt) throw error;
      return this.#token;
    });
  }

  /**
   * Returns a different token than one that ends; undefined if there is none.
   * @throws Disconnected if the function fails
   */
  async renewed(old: string | undefined): Promise<string | undefined> {
    if (!this.canRenew) return undefined;
    const token = this.#token === undefined || this.#token === old ? await this.#fresh() : this.#token;
    return token === old ? undefined : token;
  }

  /** Returns a different token than one that was refused, and no longer uses that one. See `renewed`. */
  refused(old: string | undefined): Promise<string | undefined> {
    if (this.#token === old) this.#token = undefined;
    return this.renewed(old);
  }

  // Concurrent calls get the same token or the same error.
  async #fresh(): Promise<string> {
    if (Date.now() < this.#quietUntil) throw this.failure;
    return (this.#coming ??= this.#fetched().finally(() => (this.#coming = undefined)));
  }

  async #fetched(): Promise<string> {
    try {
      const token = await this.#answer();
      // If the local clock is wrong, the token may seem to have ended: then rely on the gateway.
      const leftMs = endOf(token) - Date.now();
      this.#endsAt = leftMs > 0 ? Date.now() + leftMs : Infinity;
      this.#renewAt = this.#endsAt === Infinity ? Infinity : Date.now() + renewMs(leftMs);
      this.#failures = 0;
      this.failure = undefined;
      return (this.#token = token);
    } catch (cause) {
      this.failure = new Disconnected(`there is no token: ${cause}`, undefined, { cause });
      if (this.#failures === 0) this.report(this.failure);
      this.#quietUntil = Date.now() + Math.min(QUIET_MS_MAX, backoffMs(this.#failures, 0));
      this.#renewAt = Date.now() + renewMs(this.#endsAt - Date.now());
      this.#failures += 1;
      throw this.failure;
    }
  }

  async #answer(): Promise<string> {
    const over = new AbortController();
    const late = waited(ANSWER_MS_MAX, over.signal).then(() => Promise.reject(new Error("the token function does not answer")));
    try {
      const token = await Promise.race([late, Promise.resolve().then(this.source as () => string | Promise<string>)]);
      if (typeof token !== "string" || token === "") throw new TypeError("the token function returned no text");
      return token;
    } finally {
      over.abort();
    }
  }
}

/** Returns the unix time when a token ends: JWTs contain it. */
function endOf(token: string): number {
  try {
    const { exp } = JSON.parse(atob(token.split(".")[1]!.replaceAll("-", "+").replaceAll("_", "/")));
    return typeof exp === "number" ? exp * 1000 : Infinity;
  } catch {
    return Infinity;
  }
}
