/** useAppend: appends to a stream, with the state of the request. */
import type { AppendOptions, Fields } from "@headgate/client";
import { useCallback, useState } from "react";
import { useClient } from "./provider.js";

export interface AppendValue {
  /** Appends an entry. Returns its id. A failure is also in `error`. */
  append: (fields: Fields, options?: AppendOptions) => Promise<string>;
  isPending: boolean;
  /** Error of the last append, if it failed. */
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
        .then(() => setError(undefined), setError) // callers that do not await it have `error`
        .finally(() => setPending((count) => count - 1));
      return appended;
    },
    [client, stream],
  );
  return { append, isPending: pending > 0, error };
}
