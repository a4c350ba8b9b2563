/** useAppend: appends to a stream, and tells whether one is under way. */
import type { AppendOptions, Fields } from "@headgate/client";
import { useCallback, useState } from "react";
import { useClient } from "./provider.js";

export interface AppendValue {
  /** Append an entry; returns its id. What goes wrong is in `error`, too. */
  append: (fields: Fields, options?: AppendOptions) => Promise<string>;
  isPending: boolean;
  /** Of the last append, if it went wrong. */
  error: unknown;
}

export function useAppend(stream: string): AppendValue {
  const client = useClient();
  const [pending, setPending] = useState(0);
  const [error, setError] = useState<unknown>();
  const append = useCallback(
    (fields: Fields, options?: AppendOptions) => {
      setPending((count) => count + 1);
      const appended = client.stream(stream).append(fields, options);
      appended
        .then(() => setError(undefined), setError) // whoever does not wait for it is told by `error`
        .finally(() => setPending((count) => count - 1));
      return appended;
    },
    [client, stream],
  );
  return { append, isPending: pending > 0, error };
}
