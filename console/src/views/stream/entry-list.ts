/** Entry list: the entries of a range, a page at a time, those that match; and what comes meanwhile. */
import { signal } from "@preact/signals";
import { call, send } from "../../gateway/calls.js";
import { Problem } from "../../gateway/problem.js";
import type { Entry } from "../../gateway/shapes.js";

const PAGE = 200;
const SEARCH_PAGE = 1000;
const MATCHES = 50; // of a search, before it waits to be asked for more
const LIVE_KEPT = 2000;

export interface Range {
  start?: string | undefined;
  end?: string | undefined;
  order: "asc" | "desc";
  match?: ((entry: Entry) => boolean) | undefined;
}

export class EntryList {
  readonly entries = signal<readonly Entry[]>([]);
  /** Whether the end of the range was reached. */
  readonly isWhole = signal(false);
  readonly isBusy = signal(false);
  /** Number of entries that were looked at. */
  readonly looked = signal(0);
  readonly problem = signal<Problem>();
  #first: string | undefined; // the first entry that was looked at
  #next: string | undefined; // where the next page begins, exclusive
  readonly #ending = new AbortController();

  constructor(
    readonly stream: string,
    private readonly range: Range,
  ) {}

  /** The id of the newest entry that was looked at, if the newest ones come first. */
  get newest(): string | undefined {
    return this.#first;
  }

  /** Ask for more; a search goes on until it has some more matches. */
  async more(): Promise<void> {
    if (this.isBusy.peek() || this.isWhole.peek()) return;
    this.isBusy.value = true;
    try {
      let wanted = this.range.match ? MATCHES : 1;
      while (wanted > 0 && !this.isWhole.peek()) wanted -= await this.#page();
      this.problem.value = undefined;
    } catch (error) {
      if (this.#ending.signal.aborted) return;
      if (!(error instanceof Problem)) throw error;
      this.problem.value = error;
      this.isWhole.value = error.isMissing;
    } finally {
      this.isBusy.value = false;
    }
  }

  /** Put what has come in front; what does not match is left out, and what is too old after a while. */
  add(arrived: readonly Entry[]): void {
    const { match } = this.range;
    const added = (match ? arrived.filter(match) : arrived).toReversed();
    this.looked.value += arrived.length;
    if (!added.length) return;
    const all = [...added, ...this.entries.peek()];
    if (all.length > LIVE_KEPT && this.entries.peek().length <= LIVE_KEPT + arrived.length) {
      all.length = LIVE_KEPT;
      this.#next = all.at(-1)!.id;
      this.isWhole.value = false;
    }
    this.entries.value = all;
  }

  /** Leave an entry out that was deleted. */
  remove(id: string): void {
    this.entries.value = this.entries.peek().filter((entry) => entry.id !== id);
  }

  /** Look no further. */
  close(): void {
    this.#ending.abort();
  }

  async #page(): Promise<number> {
    const { order, match } = this.range;
    const limit = match ? SEARCH_PAGE : PAGE;
    const next = this.#next === undefined ? undefined : `(${this.#next}`;
    const start = (order === "asc" ? next : undefined) ?? this.range.start;
    const end = (order === "desc" ? next : undefined) ?? this.range.end;
    const query = { order, limit, ...(start === undefined ? {} : { start }), ...(end === undefined ? {} : { end }) };
    const request = call("get", "/v1/streams/{stream}/entries", { params: { path: { stream: this.stream }, query } });
    const { entries } = await send(request, this.#ending.signal);
    this.#first ??= entries[0]?.id;
    this.#next = entries.at(-1)?.id ?? this.#next;
    this.isWhole.value = entries.length < limit && !isCut(entries);
    this.looked.value += entries.length;
    const matching = match ? entries.filter(match) : entries;
    this.entries.value = [...this.entries.peek(), ...matching];
    return match ? matching.length : 1;
  }
}

const CUT_BYTES = 8 * 2 ** 20;

/** Whether a page may be short because its entries are large. */
function isCut(entries: readonly Entry[]): boolean {
  return entries.length > 0 && JSON.stringify(entries).length > CUT_BYTES;
}
