/**
 * Tail: what is appended while somebody looks, given to a list as often as the page is drawn. While it is held,
 * nothing is taken, and the gateway sends nothing: so no stream is too fast.
 */
import { signal } from "@preact/signals";
import type { Filter, Following, Entry as LiveEntry } from "@headgate/client";
import { follow } from "../../gateway/live.js";
import { textOf } from "../../gateway/problem.js";
import type { Entry } from "../../gateway/shapes.js";

export class Tail {
  /** Entries that have come and are not shown. */
  readonly waiting = signal(0);
  /** Why nothing comes any more. */
  readonly failure = signal("");
  /** Whether the stream is closed, and all of it has come. */
  readonly isOver = signal(false);
  readonly #following: Following;
  #arrived: Entry[] = [];
  #isHeld = false;
  #release: () => void = () => {};
  #frame = 0;

  constructor(
    stream: string,
    after: string,
    filter: Filter | undefined,
    private readonly onEntries: (entries: Entry[]) => void,
  ) {
    this.#following = follow(stream, {
      after,
      ...(filter && { filter }),
      onEntries: (entries) => this.#take(entries.map(written)),
      onError: (error) => (this.failure.value = textOf(error)),
      onState: (state) => (this.isOver.value = state === "closed"),
    });
  }

  /** Take nothing more, or go on with what has come. */
  hold(isHeld: boolean): void {
    this.#isHeld = isHeld;
    if (!isHeld) this.#draw();
  }

  close(): void {
    cancelAnimationFrame(this.#frame);
    this.#following.close();
    this.#release();
  }

  #take(entries: Entry[]): Promise<void> | void {
    this.#arrived.push(...entries);
    if (!this.#isHeld) {
      this.#frame ||= requestAnimationFrame(() => this.#draw());
      return;
    }
    this.waiting.value = this.#arrived.length;
    return new Promise((resolve) => (this.#release = resolve));
  }

  #draw(): void {
    this.#frame = 0;
    const arrived = this.#arrived;
    this.#arrived = [];
    this.waiting.value = 0;
    this.#release();
    if (arrived.length) this.onEntries(arrived);
  }
}

/** Return an entry of the client with the names of the wire, as all others here have them. */
function written({ deliverAtMs, expiresAtMs, namesBase64, ...entry }: LiveEntry): Entry {
  return {
    ...entry,
    ...(namesBase64 && { names_base64: namesBase64 }),
    ...(deliverAtMs && { deliver_at_ms: deliverAtMs }),
    ...(expiresAtMs && { expires_at_ms: expiresAtMs }),
  } as Entry;
}
