/** Follower: reads a stream across reconnections, each time after the last entry received, with bounded buffers. */
import { Arrivals } from "./arrivals.js";
import type { Context } from "./context.js";
import type { Entries, Subscribed } from "./wire/frames.js";
import type { LiveState, Subscriber, Wanted } from "./live/line.js";
import { type ConnectionOptions, Subscription } from "./live/subscription.js";
import { fromWire } from "./wire/names.js";
import type { Entry, Gap } from "./wire/types.js";
import { CreditWindow } from "./window.js";

/** A condition on the fields of entries, in the dialects of CloudEvents subscriptions, or several that all hold. */
export type Filter = Record<string, unknown> | unknown[];

export interface FollowOptions extends ConnectionOptions {
  /** Id after which to start. `$`: new entries only (the default). `0`: all entries. `+`: the last entry. */
  after?: string;
  /** Maximum number of entries that wait for you. */
  credit?: number;
  /** Only entries that match, such as `{ exact: { sku: "42" } }`. */
  filter?: Filter;
  /** Called when entries were trimmed before you received them. */
  onGap?: (gap: Gap) => void;
  onState?: (state: LiveState) => void;
  /** Ends the subscription. */
  signal?: AbortSignal;
}

export class Follower extends Subscription implements Subscriber {
  readonly isBusy = false;
  #after: string;
  readonly #sub: string;
  readonly #window: CreditWindow;

  constructor(
    private readonly context: Context,
    private readonly place: { stream: string } | { match: string },
    private readonly options: FollowOptions,
    private readonly onEntries: (entries: Entry[]) => void,
    private readonly onEnd: (error?: Error) => void,
  ) {
    super(options);
    this.#after = options.after ?? "$";
    this.#sub = context.nextSub();
    this.#window = new CreditWindow(context, this.#sub, options.credit);
    context.line.add(this.#sub, this);
  }

  /** Signals that this many entries have been taken. */
  taken(entries: number): void {
    this.#window.taken(entries);
  }

  close(): void {
    void this.context.line.remove(this.#sub);
  }

  wanted(): Wanted {
    const { filter } = this.options;
    return { ...this.place, after: this.#after, credit: this.#window.begin(), ...(filter && { filter }) };
  }

  override subscribed(frame: Subscribed): void {
    super.subscribed(frame);
    this.#after = frame.position ?? this.#after;
    this.#gap(frame.gap);
  }

  entries({ entries, gap, gaps, position }: Entries): void {
    for (const each of gaps ?? [gap]) this.#gap(each);
    // With a pattern, only `position` covers all streams.
    this.#after = position ?? ("stream" in this.place && entries.at(-1)?.id || this.#after);
    if (!entries.length) return;
    this.#window.came(entries.length);
    this.onEntries(fromWire(entries));
  }

  state(state: LiveState): void {
    this.options.onState?.(state);
  }

  override ended(error?: Error): void {
    super.ended(error);
    this.onEnd(error);
  }

  claimed(): void {}

  #gap(gap: Gap | null | undefined): void {
    if (gap) this.options.onGap?.(gap);
  }
}

export async function* followed<E extends Entry>(
  context: Context, place: { stream: string } | { match: string }, options: FollowOptions = {},
): AsyncGenerator<E, void, void> {
  const { signal } = options;
  const arrivals = new Arrivals<Entry[]>(signal);
  const add = (entries: Entry[]) => arrivals.add(entries);
  const follower = new Follower(context, place, options, add, (error) => arrivals.end(error));
  try {
    for (let entries = await arrivals.next(); entries; entries = await arrivals.next()) {
      for (const entry of entries) {
        if (signal?.aborted) return;
        yield entry as E;
      }
      follower.taken(entries.length);
    }
  } finally {
    arrivals.close();
    follower.close();
  }
}
