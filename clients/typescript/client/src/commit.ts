/** Commit: steps that the gateway executes completely or not at all. */
import { type Context, once } from "./context.js";
import { entryOf, type Fields, type Timing } from "./fields.js";
import { errorText, type NackOptions } from "./job.js";
import type { PutRowOptions } from "./table.js";
import type { CommitDone, CommitStep } from "./wire/types.js";

export interface CommitOptions {
  /** The consumer that settles entries. */
  consumer?: string | undefined;
  /** A repeat with the same key changes nothing. Default: a new key for each commit. */
  idempotencyKey?: string;
  signal?: AbortSignal;
}

/** `deliveries` has the delivery count of each entry: the commit fails if one was delivered again since. */
export interface FenceOptions {
  deliveries?: number[];
}

/** Appends one or several entries. With `lastId`, only if this is the last id of the stream before the commit. */
export function append(
  stream: string, fields: Fields | Fields[], { lastId, ...timing }: Timing & { lastId?: string } = {},
): CommitStep {
  const entries = [fields].flat().map((each) => entryOf(each, timing) as { fields: Record<string, string> });
  return { append: { stream, entries, ...(lastId && { ifLastId: lastId }) } };
}

type RowCondition = Pick<PutRowOptions, "ifMatch" | "ifAbsent">;

/** Writes the row of a key in a table, if the row before the commit matches the conditions. */
export function putRow(stream: string, key: string, fields: Fields, options: RowCondition = {}): CommitStep {
  const { ifMatch, ifAbsent } = options;
  return { putRow: { stream, key, ...entryOf(fields), ...(ifMatch && { ifMatch }), ...(ifAbsent && { ifNoneMatch: "*" }) } };
}

/** Removes the row of a key from a table. */
export function deleteRow(stream: string, key: string, options: Pick<RowCondition, "ifMatch"> = {}): CommitStep {
  return { deleteRow: { stream, key, ...options } };
}

/** Acknowledges entries of the consumer. */
export function ack(stream: string, group: string, ids: string[], options: FenceOptions = {}): CommitStep {
  return { ack: { stream, group, ids, ...options } };
}

/** Gives back entries of the consumer. */
export function nack(
  stream: string, group: string, ids: string[], { error, ...options }: NackOptions & FenceOptions = {},
): CommitStep {
  return { nack: { stream, group, ids, ...options, error: errorText(error) } };
}

/** Restarts the idle time of entries of the consumer. */
export function extend(stream: string, group: string, ids: string[], options: FenceOptions = {}): CommitStep {
  return { extend: { stream, group, ids, ...options } };
}

/** Sets a timer, which appends an entry once, at a unix time in ms. */
export function schedule(name: string, { fields, ...parts }: { stream: string; fields: Fields; atMs: number }): CommitStep {
  return { schedule: { name, ...parts, ...entryOf(fields) } };
}

/** Deletes a timer, or any schedule, if it exists. */
export function cancel(name: string): CommitStep {
  return { cancel: { name } };
}

/** @internal Executes steps. Returns the ids of the entries that each step appended. */
export async function commit(
  context: Context, steps: CommitStep[], { consumer, idempotencyKey, signal }: CommitOptions,
): Promise<string[][]> {
  const headers = once(context, idempotencyKey);
  const body = { consumer, steps };
  const { results } = await context.rest.ask<CommitDone>("POST", "/v1/commit", { body, headers, signal, isRepeatable: true });
  return results.map(({ ids = [] }) => ids);
}
