/** Stream pages: the list of streams, as much of it as was asked for, and how fast each grows. */
import { computed, signal } from "@preact/signals";
import { call, send } from "../../gateway/calls.js";
import { Problem } from "../../gateway/problem.js";
import type { Stream } from "../../gateway/shapes.js";

const PAGE = 200;

export interface Row extends Stream {
  /** Entries appended in a second, lately; null until it is known. */
  perSecond: number | null;
}

interface Page {
  cursor: string | undefined;
  streams: Row[];
  next: string | null;
  atMs: number;
}

export class StreamPages {
  readonly #pages = signal<Page[]>([]);
  #isAsking = false;

  readonly problem = signal<Problem>();
  readonly streams = computed(() => this.#pages.value.flatMap(({ streams }) => streams));
  readonly isLoaded = computed(() => this.#pages.value.length > 0);
  /** Whether there are no more. */
  readonly isWhole = computed(() => this.#pages.value.at(-1)?.next === null);

  constructor(
    readonly prefix: string,
    readonly isInternal: boolean,
  ) {}

  /** Ask for the next page, unless that was the last. */
  async more(): Promise<void> {
    const last = this.#pages.value.at(-1);
    if (last && last.next !== null) await this.#ask(this.#pages.value.length, last.next);
  }

  /** Ask again for the page that is seen. */
  async refresh(): Promise<void> {
    const at = Math.min(this.#pages.value.length - 1, this.#seen());
    await this.#ask(Math.max(0, at), this.#pages.value[at]?.cursor);
  }

  #seen(): number {
    const rows = document.querySelector(".grid.streams [data-at]:nth-child(12)");
    return Math.floor(Number(rows?.getAttribute("data-at") ?? 0) / PAGE);
  }

  async #ask(at: number, cursor: string | undefined): Promise<void> {
    if (this.#isAsking) return;
    this.#isAsking = true;
    try {
      const query = { prefix: this.prefix, limit: PAGE, ...(this.isInternal && { internal: true }), ...(cursor === undefined ? {} : { cursor }) };
      const answer = await send(call("get", "/v1/streams", { params: { query } }));
      this.#put(at, { cursor, ...this.#measured(at, answer.streams), next: answer.next_cursor ?? null });
      this.problem.value = undefined;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.problem.value = error;
    } finally {
      this.#isAsking = false;
    }
  }

  /** Put a page into its place. Where the next one begins elsewhere now, the pages behind are asked for again. */
  #put(at: number, page: Page): void {
    const pages = this.#pages.value;
    const behind = pages[at]?.next === page.next ? pages.slice(at + 1) : [];
    this.#pages.value = [...pages.slice(0, at), page, ...behind];
  }

  #measured(at: number, streams: Stream[]): Pick<Page, "streams" | "atMs"> {
    const before = this.#pages.value[at];
    const atMs = performance.now();
    const known = new Map(before?.streams.map((row) => [row.name, row]));
    const rows = streams.map((stream) => {
      const old = known.get(stream.name);
      const isSame = before !== undefined && old?.epoch === stream.epoch;
      return { ...stream, perSecond: isSame ? ((stream.entries_added - old.entries_added) / (atMs - before.atMs)) * 1000 : null };
    });
    return { streams: rows, atMs };
  }
}
