/**
 * Line: the transport of subscriptions, a WebSocket or events. A subscriber returns its request each time that the line
 * opens, and then receives frames.
 */
import type { ClientFrame, Entries, Rows, ServerFrame, State, SubscribeFrame, Subscribed } from "../wire/frames.js";
import type { Settled } from "../wire/types.js";

/** `idle`: no subscriptions; `paused`: the page is hidden; `lost`: the client reconnects; `closed`: it does not. */
export type ConnectionState = "idle" | "connecting" | "open" | "paused" | "lost" | "closed";

export type Wanted = Omit<SubscribeFrame, "type" | "rid" | "sub">;
/** `closed`: the stream is closed, and all its entries have arrived. */
export type LiveState = State["state"] | "closed";
export type Settlement = Extract<ClientFrame, { type: "ack" | "nack" | "extend" }>;
/** Frames of a channel. */
export type Told = Extract<ServerFrame, { type: "message" | "members" | "presence" }>;
/** Frames that only a WebSocket carries, and their answer. */
export type Question = Extract<ClientFrame, { type: "publish" | "presence" }>;
export type Answer = Extract<ServerFrame, { rid?: string | null }>;

export interface Subscriber {
  /** Whether work would be lost if the connection ended now. */
  readonly isBusy: boolean;
  /** Returns the request, for the first connection and after each reconnection. */
  wanted(): Wanted;
  subscribed(frame: Subscribed): void;
  entries(frame: Entries): void;
  /** Receives rows of a table, if subscribed to. */
  rows?(frame: Rows): void;
  /** Receives frames of a channel, if subscribed to. */
  told?(frame: Told): void;
  state(state: LiveState): void;
  claimed(ids: string[], by: string): void;
  /**
   * The connection was lost for this reason, and the client reconnects. Without a reason, it was closed temporarily.
   */
  lost(error?: Error): void;
  /** The subscription ended for this reason. Without a reason, the program ended it, or the stream is closed. */
  ended(error?: Error): void;
}

export interface Line {
  /** Whether a request waits for its answer. */
  readonly isBusy: boolean;
  add(sub: string, subscriber: Subscriber): void;
  /** Ends a subscription. Resolves when everything that was sent for it before is done. */
  remove(sub: string): Promise<void>;
  /** Allows this many more entries to arrive. */
  credit(sub: string, entries: number): void;
  /**
   * Settles entries.
   * @throws Disconnected if there is no connection, or it was lost before the answer arrived
   */
  settle(frame: Settlement): Promise<Settled[]>;
  /**
   * Sends a frame and returns its answer; undefined if there is no open WebSocket.
   * @throws Disconnected if the connection was lost before the answer arrived
   */
  ask(frame: Question): Promise<Answer> | undefined;
  /** Closes the connection until `resume`. */
  pause(): void;
  /** Connects now, even before the next attempt is due. */
  resume(): void;
  close(): void;
}
