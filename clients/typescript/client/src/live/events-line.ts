/**
 * The line over Server-Sent Events, for networks without WebSocket: one request per subscription, and acks with POST.
 */
import { backoffMs, waited } from "../wire/backoff.js";
import type { Entries, Subscribed } from "../wire/frames.js";
import type { ConnectionState, Line, Settlement, Subscriber, Wanted } from "./line.js";
import { Disconnected, Problem } from "../wire/problem.js";
import { path, type Rest } from "../wire/rest.js";
import type { Settled, SettledEntries, SettledStreams } from "../wire/types.js";

const PAUSE_MS_MAX = 2 ** 31 - 1; // the maximum of a timer
/** How long nothing may arrive before the first heartbeat, and the minimum of that time later. */
const SILENCE_MS = 60_000;
const SILENCE_MS_MIN = 20_000;

export class EventsLine implements Line {
  readonly isBusy = false;
  readonly #feeds = new Map<string, Feed>();

  constructor(
    private readonly rest: Rest,
    private readonly onState: (state: ConnectionState) => void,
  ) {}

  add(sub: string, subscriber: Subscriber): void {
    const feed = new Feed(sub, subscriber, this.rest, this.onState);
    this.#feeds.set(sub, feed);
    void feed.follow().finally(() => this.#feeds.delete(sub));
  }

  async remove(sub: string): Promise<void> {
    this.#feeds.get(sub)?.stop();
  }

  credit(sub: string, entries: number): void {
    this.#feeds.get(sub)?.credit(entries);
  }

  async settle(frame: Settlement): Promise<Settled[]> {
    const feed = this.#feeds.get(frame.sub ?? "");
    if (!feed) throw new Disconnected("there is no connection");
    return feed.settle(frame);
  }

  ask(): undefined {}

  pause(): void {
    for (const feed of this.#feeds.values()) feed.pause();
    this.onState("paused");
  }

  resume(): void {
    for (const feed of this.#feeds.values()) feed.resume();
  }

  close(): void {
    for (const feed of this.#feeds.values()) feed.stop();
    this.onState("closed");
  }
}

class Feed {
  #isOpen = false;
  #isOver = false;
  #isPaused = false;
  #reading = new AbortController(); // for one request and the pause after it
  #wanted: Wanted | undefined;
  #consumer = "";
  #attempt = 0;
  #comeBackAfterMs: number | undefined;
  #available = 0;
  #silenceMs = SILENCE_MS;
  #cameAt = 0;
  #onCredit: (() => void) | undefined;

  constructor(
    private readonly sub: string,
    private readonly subscriber: Subscriber,
    private readonly rest: Rest,
    private readonly onState: (state: ConnectionState) => void,
  ) {}

  stop(): void {
    this.#isOver = true;
    this.#interrupt();
  }

  pause(): void {
    this.#isPaused = true;
    this.#interrupt();
  }

  resume(): void {
    this.#isPaused = false;
    if (!this.#isOpen) this.#interrupt();
  }

  #interrupt(): void {
    this.#reading.abort();
    this.#onCredit?.();
  }

  credit(entries: number): void {
    this.#available += entries;
    if (this.#available > 0) this.#onCredit?.();
  }

  async settle({ type, sub: _, rid: __, stream, ...body }: Settlement): Promise<Settled[]> {
    const query = { consumer: this.#consumer };
    if (stream != null) {
      const { ids, ...options } = { ids: [], ...body };
      const named = { query, body: { ...options, entries: [{ stream, ids }] } };
      return (await this.rest.ask<SettledStreams>("POST", `${this.#place}/${type}`, named)).streams[0]!.results;
    }
    return (await this.rest.ask<SettledEntries>("POST", `${this.#place}/${type}`, { query, body })).results;
  }

  async follow(): Promise<void> {
    while (!this.#isOver) {
      const { signal } = (this.#reading = new AbortController());
      let error: Error = new Disconnected(`the connection to ${this.rest.addresses.current} was lost`);
      try {
        if (!this.#isPaused) await this.#read(signal);
      } catch (caught) {
        if (caught instanceof Problem && !caught.retryable && !this.#mayRenew(caught)) return this.subscriber.ended(caught);
        if (caught instanceof Problem || caught instanceof Disconnected) error = caught;
      }
      const isLost = !(this.#isOver || this.#isPaused || signal.aborted);
      if (isLost) this.#lose(error);
      else if (this.#isOpen && !this.#isOver) this.subscriber.lost();
      this.#isOpen = false;
      if (this.#isOver || signal.aborted) continue;
      await waited(this.#isPaused ? PAUSE_MS_MAX : (this.#comeBackAfterMs ?? backoffMs(this.#attempt)), signal);
      this.#comeBackAfterMs = undefined;
      this.#attempt += 1;
    }
    this.subscriber.ended();
  }

  /**
   * Returns whether the credential of the events has ended and can be renewed. For the request itself, `Rest` has tried
   * that.
   */
  #mayRenew({ status }: Problem): boolean {
    return status === 401 && this.#isOpen && this.rest.credentials.canRenew;
  }

  #lose(error: Error): void {
    this.subscriber.lost(error);
    this.onState("lost");
  }

  get #place(): string {
    const { stream, group, channel } = this.#wanted!;
    if (channel != null) return path`/v1/channels/${channel}`;
    if (stream == null) return group == null ? "/v1" : path`/v1/groups/${group}`;
    return path`/v1/streams/${stream}` + (group == null ? "" : path`/groups/${group}`);
  }

  async #read(signal: AbortSignal): Promise<void> {
    const wanted = (this.#wanted = this.subscriber.wanted());
    const { match, after, view, prefix, filter, consumer, credit = 64, claim_idle_ms, on_disconnect } = wanted;
    const create = wanted.create ? JSON.stringify(wanted.create) : undefined;
    this.#available = wanted.group == null ? credit : Infinity; // for a group, the gateway counts
    const ofStream = { match: match ?? undefined, after, view, prefix, filter: filter ? JSON.stringify(filter) : undefined };
    const query = wanted.group == null ? ofStream : { match: match ?? undefined, consumer, credit, claim_idle_ms, on_disconnect, create };
    const headers = { accept: "text/event-stream" };
    const onRetry = (error: Error) => this.#lose(error);
    const asked = { query, headers, signal, onRetry };
    const answer = await this.rest.open("GET", `${this.#place}/events`, asked, (answer) => answer);
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
    const renewal = setTimeout(() => this.#interrupt(), this.rest.credentials.renewInMs);
    try {
      await this.#takeAll(reader, signal);
    } finally {
      clearTimeout(renewal);
    }
  }

  async #takeAll(reader: ReadableStreamDefaultReader<string>, signal: AbortSignal): Promise<void> {
    for (let text = ""; ; ) {
      this.#cameAt = Date.now();
      const silence = setTimeout(() => void reader.cancel(), this.#silenceMs);
      const { value, done } = await reader.read().finally(() => clearTimeout(silence));
      if (done) return;
      const events = (text + value).split("\n\n");
      text = events.pop()!;
      for (const event of events) this.#take(event);
      while (this.#available <= 0 && !signal.aborted) await new Promise<void>((resolve) => (this.#onCredit = resolve));
    }
  }

  #take(event: string): void {
    const line = (name: string) => event.match(new RegExp(`^${name}: ?(.*)$`, "m"))?.[1];
    const data = line("data");
    if (data === undefined) {
      // A heartbeat: it arrives when nothing else has arrived for the heartbeat interval.
      this.#silenceMs = Math.max(SILENCE_MS_MIN, 1.5 * (Date.now() - this.#cameAt));
      return;
    }
    const { sub, subscriber } = this;
    const value = JSON.parse(data);
    switch (line("event")) {
      case "ready":
        this.#isOpen = true;
        this.#attempt = 0;
        this.#consumer = value.consumer ?? "";
        this.onState("open");
        return subscriber.subscribed({ type: "subscribed", sub, ...value } satisfies Subscribed);
      case "entry":
        this.#available -= 1;
        return subscriber.entries({ type: "entries", sub, entries: [value], credit_left: 0 } satisfies Entries);
      case "row":
        this.#available -= 1;
        return subscriber.rows?.({ type: "rows", sub, rows: [value], credit_left: 0, ...(line("id") && { position: line("id")! }) });
      case "message":
        return subscriber.told?.({ type: "message", sub, ...value });
      case "position":
        return subscriber.entries({ type: "entries", sub, entries: [], credit_left: 0, position: value.at });
      case "gap":
        return subscriber.entries({ type: "entries", sub, entries: [], credit_left: 0, gaps: [value.gap] });
      case "caught_up":
        return subscriber.state("caught_up");
      case "claimed":
        return subscriber.claimed(value.ids, value.by);
      case "closed":
        this.#isOver = true;
        return subscriber.state("closed");
      case "draining":
        this.#comeBackAfterMs = value.reconnect_after_ms;
        return;
      case "problem":
        throw new Problem(value);
    }
  }
}
