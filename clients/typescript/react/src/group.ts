/** useGroup: processes a group while the component is mounted. */
import type { Handler, WorkOptions } from "@headgate/client";
import { useEffect, useRef, useState } from "react";
import { useClient } from "./provider.js";
import { abortion, BEGUN, connected, type ConnectionValue } from "./stream.js";

export type UseGroupOptions = Pick<WorkOptions, "concurrency" | "consumer" | "credit" | "claimIdleMs" | "onDisconnect">;

export interface GroupValue extends ConnectionValue {
  /** Number of jobs that the handler has processed, and of those at which it threw. */
  done: number;
  failed: number;
  /** The last error that the handler threw. */
  failure: unknown;
}

const NOTHING: GroupValue = { ...BEGUN, done: 0, failed: 0, failure: undefined };

/** Runs the newest handler for each job. See `Group.work`. */
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
      onConnection: (connection, error) => change(() => connected(connection, error)),
      onError: (failure) => change(({ failed }) => ({ failed: failed + 1, failure })),
    };
    const work: Handler = async (job) => {
      await newest.current(job);
      change(({ done }) => ({ done: done + 1 }));
    };
    setValue(NOTHING);
    const end = (error: Error) => change(() => ({ error, state: "ended", connection: "refused" }));
    client.group(stream, name).work(work, options).catch(end);
    return abort;
  }, [client, stream, name, concurrency, consumer, credit, claimIdleMs, onDisconnect]);
  return value;
}
