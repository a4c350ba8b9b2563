/** Rest: requests with `fetch`, retried if that is safe. Problems of the gateway become errors. */
import type { Addresses } from "./addresses.js";
import { backoffMs, waited } from "./backoff.js";
import type { Credentials } from "./credentials.js";
import { fromWire, toWire } from "./names.js";
import { Disconnected, NotYours, Problem, RowChanged } from "./problem.js";
import type { FenceProblemDetails, ProblemDetails, RowProblemDetails } from "./types.js";

/** Timeout for the start of the answer, in addition to the time that the request itself waits. */
const ANSWER_MS_MAX = 30_000;

type Value = string | number | boolean | null | undefined;

/** Page of a list. The name of the list is the member with its items. */
interface Page<T> {
  nextCursor?: string | null;
  [name: string]: T[] | string | null | undefined;
}

/** Parts of a request, except its method and path. */
export interface Request {
  query?: Record<string, Value>;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  /** Called each time that the request failed and is retried. */
  onRetry?: ((error: Error) => void) | undefined;
  /** Whether the request may be sent twice if it is unknown whether the first one arrived. */
  isRepeatable?: boolean;
}

/** Returns a path of the contract, with percent-encoded names. */
export function path(strings: TemplateStringsArray, ...names: string[]): string {
  return String.raw({ raw: strings }, ...names.map(encodeURIComponent));
}

/** Returns a value as JSON for a query. */
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
   * Sends a request. Returns the answer, with names in camelCase.
   * @throws Problem if the gateway refuses it, Disconnected if the gateway cannot be reached
   */
  async ask<T = void>(method: string, path: string, request: Request = {}): Promise<T> {
    const text = await this.open(method, path, request, (answer) => answer.text().catch(cut));
    return (text === "" ? undefined : fromWire(JSON.parse(text))) as T;
  }

  /** Yields the items of a list, page by page. */
  async *items<T>(path: string, name: string, query?: Record<string, Value>): AsyncGenerator<T, void, void> {
    let cursor: string | null | undefined;
    do {
      const page: Page<T> = await this.ask("GET", path, { query: { ...query, cursor } });
      yield* page[name] as T[];
      cursor = page.nextCursor;
    } while (cursor);
  }

  /** Returns whether the gateway answers at all. */
  async isReachable(): Promise<boolean> {
    return this.#send(this.addresses.current, "GET", "/healthz", {}).then(
      () => true,
      (error) => error instanceof Problem,
    );
  }

  /** Sends a request. Returns what `take` returns for the answer. */
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
        // The last attempt is at the deadline, unless the gateway asks for a longer pause.
        const saidMs = (isRefused && error.retryAfterMs) || 0;
        if (!mayRepeat || (delayMs && leftMs <= saidMs)) throw error;
        request.onRetry?.(error as Error);
        await waited(Math.min(delayMs, leftMs), request.signal);
      }
    }
  }

  /** Sends a request, and repeats it with a fresh token if the current one is refused. */
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
    // Node 20 may never settle a request whose connection is cut at once. The timer also keeps Node from exiting then.
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
  throw new Disconnected("the connection was lost before the answer was complete", undefined, { cause });
}

/** Returns the problem in an answer. The answer may also be from a proxy. */
async function refusal(response: Response): Promise<Error> {
  const text = await response.text();
  try {
    const details = fromWire<ProblemDetails | RowProblemDetails | FenceProblemDetails>(JSON.parse(text));
    if (details.code === "row_changed") return new RowChanged(details);
    if (details.code === "not_yours") return new NotYours(details);
    if (details.code) return new Problem(details);
  } catch {
    // Not JSON: a proxy answered.
  }
  return new Disconnected(`${response.url} answered ${response.status} ${response.statusText}`);
}
