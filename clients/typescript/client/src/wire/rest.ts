/** Rest: requests by `fetch`, tried again where that is safe, with the problems of the gateway as errors. */
import type { Addresses } from "./addresses.js";
import { backoffMs, waited } from "./backoff.js";
import type { Credentials } from "./credentials.js";
import { fromWire, toWire } from "./names.js";
import { Disconnected, NotYours, Problem, RowChanged } from "./problem.js";
import type { FenceProblemDetails, ProblemDetails, RowProblemDetails } from "./types.js";

/** So long may the gateway take to begin its answer, besides what it was asked to wait. */
const ANSWER_MS_MAX = 30_000;

type Value = string | number | boolean | null | undefined;

/** Page of a list: its items stand under their own name. */
interface Page<T> {
  nextCursor?: string | null;
  [name: string]: T[] | string | null | undefined;
}

/** Parts of a request besides its method and its path. */
export interface Request {
  query?: Record<string, Value>;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  /** Told each time that it failed and is tried again. */
  onRetry?: ((error: Error) => void) | undefined;
  /** Whether it does no harm to send it twice, where nobody knows if it arrived. */
  isRepeatable?: boolean;
}

/** Return a path of the contract, with names as they stand in a URL. */
export function path(strings: TemplateStringsArray, ...names: string[]): string {
  return String.raw({ raw: strings }, ...names.map(encodeURIComponent));
}

/** Return a value as it stands in a query. */
export function jsonOf(value: unknown): string | undefined {
  return value === undefined ? undefined : JSON.stringify(value);
}

export class Rest {
  constructor(
    readonly addresses: Addresses,
    readonly credentials: Credentials,
    private readonly retryMs: number,
    private readonly fetching: typeof fetch = (...words) => fetch(...words),
  ) {}

  /**
   * Ask the gateway for something; returns its answer, with names in camelCase.
   * @throws Problem if it refuses, Disconnected if it cannot be reached
   */
  async ask<T = void>(method: string, path: string, request: Request = {}): Promise<T> {
    const text = await this.open(method, path, request, (answer) => answer.text().catch(cut));
    return (text === "" ? undefined : fromWire(JSON.parse(text))) as T;
  }

  /** Return the items of a list, page by page. */
  async *items<T>(path: string, name: string, query?: Record<string, Value>): AsyncGenerator<T, void, void> {
    let cursor: string | null | undefined;
    do {
      const page: Page<T> = await this.ask("GET", path, { query: { ...query, cursor } });
      yield* page[name] as T[];
      cursor = page.nextCursor;
    } while (cursor);
  }

  /** Tell whether the gateway answers at all. */
  async isReachable(): Promise<boolean> {
    return this.#send(this.addresses.current, "GET", "/healthz", {}).then(
      () => true,
      (error) => error instanceof Problem,
    );
  }

  /** Ask the gateway, and return what is taken of its answer. */
  async open<T>(method: string, path: string, request: Request, take: (answer: Response) => T | Promise<T>): Promise<T> {
    const endsAt = Date.now() + this.retryMs;
    for (let attempt = 0; ; attempt += 1) {
      const url = this.addresses.current;
      try {
        return await take(await this.#authorized(url, method, path, request));
      } catch (error) {
        request.signal?.throwIfAborted();
        const isRefused = error instanceof Problem;
        const isUnsent = error === this.credentials.failure;
        // A refused request changed nothing. A lost one may have arrived.
        const mayRepeat = isRefused ? error.retryable : isUnsent || request.isRepeatable || method === "GET";
        const delayMs = isUnsent ? backoffMs(attempt) : this.addresses.failedMs(attempt, url, error);
        const leftMs = endsAt - Date.now();
        // The last attempt is at the end, unless the gateway says that it would be in vain.
        const saidMs = (isRefused && error.retryAfterMs) || 0;
        if (!mayRepeat || (delayMs && leftMs <= saidMs)) throw error;
        request.onRetry?.(error as Error);
        await waited(Math.min(delayMs, leftMs), request.signal);
      }
    }
  }

  /** Send a request; once more with a fresh token if the one in use is refused. */
  async #authorized(base: string, method: string, path: string, request: Request): Promise<Response> {
    const token = await this.credentials.current();
    try {
      return await this.#send(base, method, path, request, token);
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 401) throw error;
      const fresh = await this.credentials.refused(token);
      if (fresh === undefined) throw error;
      return this.#send(base, method, path, request, fresh);
    }
  }

  async #send(base: string, method: string, path: string, request: Request, token?: string): Promise<Response> {
    const { query = {}, body, signal } = request;
    const words = Object.entries(query).filter(([, value]) => value != null);
    const url = new URL(base + path);
    url.search = new URLSearchParams(words.map(([name, value]) => [name, String(value)])).toString();
    const headers = new Headers(request.headers);
    if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
    const late = new AbortController();
    const init: RequestInit = { method, headers, signal: AbortSignal.any([signal ?? late.signal, late.signal]) };
    if (body !== undefined) {
      const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
      headers.set("content-type", type);
      init.body = JSON.stringify(toWire(body));
    }
    let response: Response;
    const waitMs = Number(query.wait_ms ?? (body as { waitMs?: number } | undefined)?.waitMs ?? 0);
    // Node 20 may never settle a request whose connection is cut at once, and then ends for want of things to do.
    const timer = setTimeout(() => late.abort(), ANSWER_MS_MAX + waitMs);
    try {
      response = await this.fetching(url, init);
    } catch (error) {
      signal?.throwIfAborted();
      throw new Disconnected(`the gateway cannot be reached at ${base}`, undefined, { cause: error });
    } finally {
      clearTimeout(timer);
    }
    if (!response.ok) throw await refusal(response);
    return response;
  }
}

function cut(cause: unknown): never {
  throw new Disconnected("the connection was lost before the answer was there", undefined, { cause });
}

/** Return the problem in an answer; also something that is no gateway may have answered. */
async function refusal(response: Response): Promise<Error> {
  const text = await response.text();
  try {
    const details = fromWire<ProblemDetails | RowProblemDetails | FenceProblemDetails>(JSON.parse(text));
    if (details.code === "row_changed") return new RowChanged(details);
    if (details.code === "not_yours") return new NotYours(details);
    if (details.code) return new Problem(details);
  } catch {
    // No JSON: then it was a proxy.
  }
  return new Disconnected(`${response.url} answered ${response.status} ${response.statusText}`);
}
