/** Subscription: what is subscribed over a line, and whether it is connected. */
import type { Subscribed } from "../wire/frames.js";

/**
 * `connecting`: nothing was tried in vain so far; `live`: what comes is told at once; `lost`: nothing comes, and the client tries
 * to connect again; `refused`: nothing comes any more.
 */
export type Connection = "connecting" | "live" | "lost" | "refused";

export interface ConnectionOptions {
  /** Told of each change of the connection. The error says why it is lost or refused; null otherwise. */
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

  // Each attempt that fails has an error of its own, which says the same.
  #become(connection: Connection, error: Error | null = null): void {
    const isNews = connection !== this.connection || error?.message !== this.error?.message;
    this.connection = connection;
    this.error = error;
    if (isNews) this.#tell?.(connection, error);
  }
}
