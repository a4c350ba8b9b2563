/** useStream: the newest entries of a stream, as they come. */
import { type Connection, Disconnected, type Entry, type Gap, isProblem, type LiveState } from "@headgate/client";
import { useEffect, useState } from "react";
import { useClient } from "./provider.js";

/** What comes in so long is shown together. */
export const FRAME_MS = 16;

/** Before what is not there yet is looked for again. */
export const MISSING_MS = 1000;

export interface UseStreamOptions {
  /** Begin after this id; `$`, from now on, unless given. */
  after?: string;
  /** Begin with so many that are there already, instead of `after`. */
  last?: number;
  /** Number of entries kept, the newest ones; 100 unless given. */
  limit?: number;
}

/** How a hook is connected to what it shows. */
export interface ConnectionValue {
  /** `connecting` while it is not live: what is shown may be old. */
  state: "connecting" | LiveState | "ended";
  /** `lost`: the client tries to connect again; `refused`: it does not. */
  connection: Connection;
  /** Why it is lost or refused, or what there is not yet; null while it is live. */
  error: Error | null;
}

export interface StreamValue extends ConnectionValue {
  /** Oldest first. */
  entries: Entry[];
  /** Entries that were trimmed and not seen. */
  gap: Gap | undefined;
}

export const BEGUN: ConnectionValue = { state: "connecting", connection: "connecting", error: null };
const EMPTY: StreamValue = { ...BEGUN, entries: [], gap: undefined };

/** Show the newest entries of a stream; one that does not exist is waited for. */
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
      connection === "refused" || change(connected(connection, error)); // `onError` is told, too
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

/** Return what a change of the connection changes of a hook's value. */
export function connected(connection: Connection, error: Error | null): Partial<ConnectionValue> {
  return { connection, error, ...(connection !== "live" && { state: "connecting" }) };
}

/** Tell whether to begin anew by and by: nobody has answered for long, or there is no such stream yet. */
export function comesBack(error: unknown): boolean {
  return isProblem(error, "stream_not_found") || (error instanceof Disconnected && error.closeCode === undefined);
}

/** Return a signal, and what aborts it. */
export function abortion(): { signal: AbortSignal; abort: () => void } {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort() };
}
