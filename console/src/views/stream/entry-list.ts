/** Entry list: the entries of a range, a page at a time, those that match; and what comes meanwhile. */
import { signal } from "@preact/signals";
import { call, send } from "../../gateway/calls.js";
import { Problem } from "../../gateway/problem.js";
import type { Entry } from "../../gateway/shapes.js";
import type { Search } from "../../values/search.js";

const PAGE = 200;
const SEARCH_PAGE = 1000;
const MATCHES = 50; // of a search, before it waits to be asked for more
const LIVE_KEPT = 2000;

export interface Range extends Search {
  start?: string | undefined;
  end?: string | undefined;
  order: "asc" | "desc";
}

export class EntryList {
  readonly entries = signal<readonly Entry[]>([]);
  /** Whether the end of the range was reached. */
  readonly isWhole = signal(false);
  readonly isBusy = signal(false);
  /** Number of entries that came, whether they match or not. */
  readonly looked = signal(0);
  /** The id as far as which was looked. */
  readonly reached = signal<string>();
  readonly problem = signal<Problem>();
  #last: string | undefined; // the last id of the stream when it was first looked at
  readonly #ending = new AbortController();

  constructor(
    readonly stream: string,
    readonly range: Range,
  ) {}

  /** The id behind which entries may have come since, if it was looked to the end of the stream. */
  get last(): string | undefined {
    return this.#last;
  }

  private get isSearch(): boolean {
    return this.range.match !== undefined || this.range.filter !== undefined;
  }

  /** Ask for more; a search goes on until it has some more matches. */
  async more(): Promise<void> {
    if (this.isBusy.peek() || this.isWhole.peek()) return;
    this.isBusy.value = true;
    try {
      let wanted = this.isSearch ? MATCHES : 1;
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
      this.reached.value = all.at(-1)!.id;
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
    const { order, match, filter } = this.range;
    const isDown = order === "desc";
    const reached = this.reached.peek();
    const next = reached === undefined ? undefined : `(${reached}`;
    const start = (isDown ? undefined : next) ?? this.range.start;
    const end = (isDown ? next : undefined) ?? this.range.end;
    const query = {
      order,
      limit: match ? SEARCH_PAGE : PAGE,
      ...(start ? { start } : {}),
      ...(end ? { end } : {}),
      ...(filter ? { filter: JSON.stringify(filter) } : {}),
    };
    const request = call("get", "/v1/streams/{stream}/entries", { params: { path: { stream: this.stream }, query } });
    const answer = await send(request, this.#ending.signal);
    const { entries } = answer;
    const behind = isDown ? answer.next_before : answer.next_after;
    this.#last ??= answer.last_id;
    this.reached.value = behind ?? entries.at(-1)?.id ?? reached;
    this.isWhole.value = behind == null || (!filter && entries.length === 0);
    this.looked.value += entries.length;
    const matching = match ? entries.filter(match) : entries;
    this.entries.value = [...this.entries.peek(), ...matching];
    return this.isSearch ? matching.length : 1;
  }
}
