/** useStream: the newest entries of a stream, as they come. */
import { type Entry, type Gap, isProblem, type LiveState } from "@headgate/client";
import { useEffect, useState } from "react";
import { useClient } from "./provider.js";

/** What comes in so long is shown together. */
export const FRAME_MS = 16;

/** Before a stream is looked for again that does not exist. */
export const MISSING_MS = 1000;

export interface UseStreamOptions {
  /** Begin after this id; `$`, from now on, unless given. */
  after?: string;
  /** Begin with so many that are there already, instead of `after`. */
  last?: number;
  /** Number of entries kept, the newest ones; 100 unless given. */
  limit?: number;
}

export interface StreamValue {
  /** Oldest first. */
  entries: Entry[];
  state: "connecting" | LiveState | "ended";
  /** Why nothing more comes. */
  error: unknown;
  /** Entries that were trimmed and not seen. */
  gap: Gap | undefined;
}

const EMPTY: StreamValue = { entries: [], state: "connecting", error: undefined, gap: undefined };

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
    const onError = (error: unknown) => {
      if (!isProblem(error, "stream_not_found")) return change({ error, state: "ended" });
      setTimeout(() => signal.aborted || begin(after === "$" ? "0" : after), MISSING_MS);
    };
    const follow = (after: string) => {
      const onEntries = (entries: Entry[]) => {
        add(entries);
        return new Promise((resolve) => setTimeout(resolve, FRAME_MS));
      };
      const onState = (state: LiveState) => change({ state });
      stream.subscribe({ after, signal, onEntries, onError, onState, onGap: (gap) => change({ gap }) });
    };
    const begin = (after: string) => {
      setValue(EMPTY);
      if (last === undefined) return follow(after);
      stream.read({ order: "desc", limit: last, signal }).then(({ entries, lastId }) => {
        add(entries.reverse());
        if (!signal.aborted) follow(entries.at(-1)?.id ?? lastId);
      }, onError);
    };
    begin(after);
    return abort;
  }, [client, name, after, last, limit]);
  return value;
}

/** Return a signal, and what aborts it. */
export function abortion(): { signal: AbortSignal; abort: () => void } {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort() };
}
