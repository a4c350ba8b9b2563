/** Commit: steps that the gateway carries out together, or not at all. */
import { type Context, once } from "./context.js";
import { entryOf, type Fields, type Timing } from "./fields.js";
import { errorText, type NackOptions } from "./job.js";
import type { PutRowOptions } from "./table.js";
import type { CommitDone, CommitStep } from "./wire/types.js";

export interface CommitOptions {
  /** The consumer that settles entries. */
  consumer?: string | undefined;
  /** Names this commit, so that it is made once; the client chooses one unless given. */
  idempotencyKey?: string;
  signal?: AbortSignal;
}

/** With `deliveries`, the commit fails if an entry was delivered again since: the delivery count of each. */
export interface FenceOptions {
  deliveries?: number[];
}

/** Append an entry, or several; only if `lastId` is the stream's last id before the commit. */
export function append(
  stream: string, fields: Fields | Fields[], { lastId, ...timing }: Timing & { lastId?: string } = {},
): CommitStep {
  const entries = [fields].flat().map((each) => entryOf(each, timing) as { fields: Record<string, string> });
  return { append: { stream, entries, ...(lastId && { ifLastId: lastId }) } };
}

type RowCondition = Pick<PutRowOptions, "ifMatch" | "ifAbsent">;

/** Write the row of a key in a table, if it is as the conditions say before the commit. */
export function putRow(stream: string, key: string, fields: Fields, options: RowCondition = {}): CommitStep {
  const { ifMatch, ifAbsent } = options;
  return { putRow: { stream, key, ...entryOf(fields), ...(ifMatch && { ifMatch }), ...(ifAbsent && { ifNoneMatch: "*" }) } };
}

/** Remove the row of a key from a table. */
export function deleteRow(stream: string, key: string, options: Pick<RowCondition, "ifMatch"> = {}): CommitStep {
  return { deleteRow: { stream, key, ...options } };
}

/** Acknowledge entries of the consumer. */
export function ack(stream: string, group: string, ids: string[], options: FenceOptions = {}): CommitStep {
  return { ack: { stream, group, ids, ...options } };
}

/** Give entries of the consumer back. */
export function nack(
  stream: string, group: string, ids: string[], { error, ...options }: NackOptions & FenceOptions = {},
): CommitStep {
  return { nack: { stream, group, ids, ...options, error: errorText(error) } };
}

/** Restart the idle time of entries of the consumer. */
export function extend(stream: string, group: string, ids: string[], options: FenceOptions = {}): CommitStep {
  return { extend: { stream, group, ids, ...options } };
}

/** Set a timer, which appends an entry at a unix time, once. */
export function schedule(name: string, { fields, ...parts }: { stream: string; fields: Fields; atMs: number }): CommitStep {
  return { schedule: { name, ...parts, ...entryOf(fields) } };
}

/** Delete a timer, or any schedule, if it is there. */
export function cancel(name: string): CommitStep {
  return { cancel: { name } };
}

/** @internal Carry out steps; returns the ids that each has appended. */
export async function commit(
  context: Context, steps: CommitStep[], { consumer, idempotencyKey, signal }: CommitOptions,
): Promise<string[][]> {
  const headers = once(context, idempotencyKey);
  const body = { consumer, steps };
  const { results } = await context.rest.ask<CommitDone>("POST", "/v1/commit", { body, headers, signal, isRepeatable: true });
  return results.map(({ ids = [] }) => ids);
}
