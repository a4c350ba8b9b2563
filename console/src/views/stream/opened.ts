/** Opened: the entry that a view shows in full. The address has its id. */
import { type ReadonlySignal, useSignal, useSignalEffect } from "@preact/signals";
import { call, send } from "../../gateway/calls.js";
import { textOf } from "../../gateway/problem.js";
import type { Entry } from "../../gateway/shapes.js";
import { useAddressed } from "../../parts/addressed.js";
import { notice } from "../../parts/notices.js";

/** Return the entry of a stream that is open, and a function that opens another one, or none. */
export function useOpened(stream: string): [ReadonlySignal<Entry | undefined>, (entry: Entry | undefined) => void] {
  const id = useAddressed("entry", "");
  const opened = useSignal<Entry | undefined>(undefined);
  useSignalEffect(() => {
    const wanted = id.value;
    if (wanted === (opened.peek()?.id ?? "")) return undefined;
    opened.value = undefined;
    if (!wanted) return undefined;
    const asking = new AbortController();
    send(call("get", "/v1/streams/{stream}/entries/{id}", { params: { path: { stream, id: wanted } } }), asking.signal).then(
      (entry) => (opened.value = entry),
      (error: unknown) => {
        if (asking.signal.aborted) return;
        id.value = "";
        notice(`Cannot show entry ${wanted}: ${textOf(error)}`, { isBad: true });
      },
    );
    return () => asking.abort();
  });
  const open = (entry: Entry | undefined) => {
    opened.value = entry;
    id.value = entry?.id ?? "";
  };
  return [opened, open];
}
