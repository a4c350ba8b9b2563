/** Subscription: a subscription over a line, and its connection. */
import type { Subscribed } from "../wire/frames.js";

/**
 * `connecting`: no attempt has failed so far; `live`: items arrive at once; `lost`: no items arrive, and the client
 * reconnects; `refused`: no more items arrive.
 */
export type Connection = "connecting" | "live" | "lost" | "refused";

export interface ConnectionOptions {
  /** Called on each change of the connection. `error` says why it is lost or refused, and is null otherwise. */
  onConnection?: ((connection: Connection, error: Error | null) => void) | undefined;
}

export abstract class Subscription {
  connection: Connection = "connecting";
  error: Error | null = null;
  readonly #tell: ConnectionOptions["onConnection"];

  constructor({ onConnection }: ConnectionOptions) {
    this.#tell = onConnection;
  }

  subscribed(_frame: Subscribed): void {
    this.#become("live");
  }

  lost(error?: Error): void {
    this.#become(error ? "lost" : "connecting", error);
  }

  ended(error?: Error): void {
    if (error) this.#become("refused", error);
  }

  // Each failed attempt has its own error with the same message.
  #become(connection: Connection, error: Error | null = null): void {
    const isNews = connection !== this.connection || error?.message !== this.error?.message;
    this.connection = connection;
    this.error = error;
    if (isNews) this.#tell?.(connection, error);
  }
}
