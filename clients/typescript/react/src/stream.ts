/** useStream: the newest entries of a stream, as they arrive. */
import { type Connection, Disconnected, type Entry, type Gap, isProblem, type LiveState } from "@headgate/client";
import { useEffect, useState } from "react";
import { useClient } from "./provider.js";

/** Entries that arrive within this time are rendered together. */
export const FRAME_MS = 16;

/** Pause before looking again for a stream that does not exist yet. */
export const MISSING_MS = 1000;

export interface UseStreamOptions {
  /** Id after which to start. Default: `$`, new entries only. */
  after?: string;
  /** Start with this many existing entries, instead of `after`. */
  last?: number;
  /** Number of newest entries to keep. Default: 100. */
  limit?: number;
}

/** The connection of a hook. */
export interface ConnectionValue {
  /** `connecting` while it is not live: the data can be stale. */
  state: "connecting" | LiveState | "ended";
  /** `lost`: the client reconnects; `refused`: it does not. */
  connection: Connection;
  /** Why the connection is lost or refused, or what does not exist yet; null while it is live. */
  error: Error | null;
}

export interface StreamValue extends ConnectionValue {
  /** Oldest first. */
  entries: Entry[];
  /** Entries that were trimmed before they were received. */
  gap: Gap | undefined;
}

export const BEGUN: ConnectionValue = { state: "connecting", connection: "connecting", error: null };
const EMPTY: StreamValue = { ...BEGUN, entries: [], gap: undefined };

/** Shows the newest entries of a stream. Waits for a stream that does not exist yet. */
export function useStream(name: string, { after = "$", last, limit = 100 }: UseStreamOptions = {}): StreamValue {
  const client = useClient();
  const [value, setValue] = useState(EMPTY);
  useEffect(() => {
    const { signal, abort } = abortion();
    const stream = client.stream(name);
    const change = (change: Partial<StreamValue>) => signal.aborted || setValue((value) => ({ ...value, ...change }));
    const add = (entries: Entry[]) =>
      signal.aborted || setValue((value) => ({ ...value, entries: [...value.entries, ...entries].slice(-limit) }));
    const onError = (reason: unknown) => {
      const error = reason as Error;
      if (!comesBack(error)) return change({ error, state: "ended", connection: "refused" });
      const isMissing = isProblem(error);
      change(isMissing ? { ...EMPTY, error } : connected("lost", error));
      setTimeout(() => signal.aborted || begin(isMissing && after === "$" ? "0" : after), MISSING_MS);
    };
    const onConnection = (connection: Connection, error: Error | null) =>
      connection === "refused" || change(connected(connection, error)); // `onError` is also called
    const follow = (after: string) => {
      const onEntries = (entries: Entry[]) => {
        add(entries);
        return new Promise((resolve) => setTimeout(resolve, FRAME_MS));
      };
      const onState = (state: LiveState) => change({ state });
      stream.subscribe({ after, signal, onEntries, onError, onState, onConnection, onGap: (gap) => change({ gap }) });
    };
    const begin = (after: string) => {
      if (last === undefined) return follow(after);
      const onRetry = (error: Error) => change(connected("lost", error));
      stream.read({ order: "desc", limit: last, signal, onRetry }).then(({ entries, lastId }) => {
        add(entries.reverse());
        if (!signal.aborted) follow(entries.at(-1)?.id ?? lastId);
      }, onError);
    };
    setValue(EMPTY);
    begin(after);
    return abort;
  }, [client, name, after, last, limit]);
  return value;
}

/** Returns the changes to the value of a hook for a change of the connection. */
export function connected(connection: Connection, error: Error | null): Partial<ConnectionValue> {
  return { connection, error, ...(connection !== "live" && { state: "connecting" }) };
}

/** Returns whether to start again after a pause: there was no answer, or the stream does not exist yet. */
export function comesBack(error: unknown): boolean {
  return isProblem(error, "stream_not_found") || (error instanceof Disconnected && error.closeCode === undefined);
}

/** Returns a signal, and a function that aborts it. */
export function abortion(): { signal: AbortSignal; abort: () => void } {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort() };
}
