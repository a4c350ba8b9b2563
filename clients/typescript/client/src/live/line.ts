/**
 * Line: what carries subscriptions, be it a WebSocket or events. A subscriber says what it wants each time
 * the line is open, and is told what comes.
 */
import type { ClientFrame, Entries, Rows, ServerFrame, State, SubscribeFrame, Subscribed } from "../wire/frames.js";
import type { Settled } from "../wire/types.js";

/** `idle`: nothing is subscribed; `paused`: the page is hidden; `lost`: it comes back; `closed`: it does not. */
export type ConnectionState = "idle" | "connecting" | "open" | "paused" | "lost" | "closed";

export type Wanted = Omit<SubscribeFrame, "type" | "rid" | "sub">;
/** `closed`: the stream is closed, and all of it has come. */
export type LiveState = State["state"] | "closed";
export type Settlement = Extract<ClientFrame, { type: "ack" | "nack" | "extend" }>;
/** What comes of a channel. */
export type Told = Extract<ServerFrame, { type: "message" | "members" | "presence" }>;
/** What only a WebSocket carries, and its answer. */
export type Question = Extract<ClientFrame, { type: "publish" | "presence" }>;
export type Answer = Extract<ServerFrame, { rid?: string | null }>;

export interface Subscriber {
  /** Whether it would be a loss if the connection ended now. */
  readonly isBusy: boolean;
  /** Return the request, for now and after each reconnection. */
  wanted(): Wanted;
  subscribed(frame: Subscribed): void;
  entries(frame: Entries): void;
  /** Rows of a table, if that is what it wants. */
  rows?(frame: Rows): void;
  /** What comes of a channel, if that is what it wants. */
  told?(frame: Told): void;
  state(state: LiveState): void;
  claimed(ids: string[], by: string): void;
  /** There is no connection now, for this reason; it comes back. Without a reason, it was given up for a moment. */
  lost(error?: Error): void;
  /** Nothing more comes, for this reason; without one it was asked for, or the stream is closed. */
  ended(error?: Error): void;
}

export interface Line {
  /** Whether somebody waits for an answer. */
  readonly isBusy: boolean;
  add(sub: string, subscriber: Subscriber): void;
  /** End a subscription; returns when all that was sent for it before is done. */
  remove(sub: string): Promise<void>;
  /** Let so many more entries come. */
  credit(sub: string, entries: number): void;
  /**
   * Settle entries.
   * @throws Disconnected if there is no connection, or it was lost before the answer came
   */
  settle(frame: Settlement): Promise<Settled[]>;
  /**
   * Send a frame, and return its answer; undefined if there is no WebSocket that is open.
   * @throws Disconnected if it was lost before the answer came
   */
  ask(frame: Question): Promise<Answer> | undefined;
  /** Give the connection up until `resume`. */
  pause(): void;
  /** Connect now, also before the next attempt is due. */
  resume(): void;
  close(): void;
}
