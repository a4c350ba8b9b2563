/** useGroup: works a group for as long as the component is there. */
import type { Handler, LiveState, WorkOptions } from "@headgate/client";
import { useEffect, useRef, useState } from "react";
import { useClient } from "./provider.js";
import { abortion } from "./stream.js";

export type UseGroupOptions = Pick<WorkOptions, "concurrency" | "consumer" | "credit" | "claimIdleMs" | "onDisconnect">;

export interface GroupValue {
  /** Jobs that the handler has worked off, and those it threw at. */
  done: number;
  failed: number;
  state: "connecting" | LiveState | "ended";
  /** The last error of the handler, or why the group cannot be read any more. */
  error: unknown;
}

const NOTHING: GroupValue = { done: 0, failed: 0, state: "connecting", error: undefined };

/** Run the newest handler for each job; see `Group.work`. */
export function useGroup(
  stream: string,
  name: string,
  handler: Handler,
  { concurrency, consumer, credit, claimIdleMs, onDisconnect }: UseGroupOptions = {},
): GroupValue {
  const client = useClient();
  const [value, setValue] = useState(NOTHING);
  const newest = useRef(handler);
  useEffect(() => {
    newest.current = handler;
  });
  useEffect(() => {
    const { signal, abort } = abortion();
    const change = (change: (value: GroupValue) => Partial<GroupValue>) =>
      signal.aborted || setValue((value) => ({ ...value, ...change(value) }));
    const given = { concurrency, consumer, credit, claimIdleMs, onDisconnect };
    const options: WorkOptions = {
      ...(Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as UseGroupOptions),
      signal,
      signals: [],
      onState: (state) => change(() => ({ state })),
      onError: (error) => change(({ failed }) => ({ failed: failed + 1, error })),
    };
    const work: Handler = async (job) => {
      await newest.current(job);
      change(({ done }) => ({ done: done + 1 }));
    };
    setValue(NOTHING);
    client.group(stream, name).work(work, options).catch((error: unknown) => change(() => ({ error, state: "ended" })));
    return abort;
  }, [client, stream, name, concurrency, consumer, credit, claimIdleMs, onDisconnect]);
  return value;
}
