/** Shapes: what the contract says, under the names that are used here. */
import type { components, paths } from "./contract.d.ts";

export type Contract = paths & Coming;
export type Schemas = components["schemas"];

export type Stream = Schemas["Stream"];
export type Group = Schemas["Group"];
export type Entry = Schemas["Entry"];
export type Pending = Schemas["PendingEntry"];
export type Consumer = Schemas["GroupConsumer"];
export type Policy = Schemas["Policy"];

/** A history of the gateway, a stream or a group: a column for each series, a value for each time, null where nothing is known. */
export interface History {
  step_ms: number;
  times_ms: number[];
  series: Record<string, (number | null)[]>;
  observed?: boolean;
}

export interface Histogram {
  from_ms: number;
  to_ms: number;
  bucket_ms: number;
  counts: number[];
}

export interface Subscription {
  stream: string;
  group?: string | null;
  consumer?: string | null;
  state: string;
  credit?: number | null;
  held?: number | null;
}

export interface Connection {
  id: string;
  transport: "websocket" | "events" | "redis";
  client: string;
  principal: string;
  since_ms: number;
  subscriptions: Subscription[];
  sent_entries: number;
  outbox_bytes: number;
}

interface Operation<Path, Query, Answer> {
  parameters: { path: Path; query?: Query; header?: never; cookie?: never };
  requestBody?: never;
  responses: { 200: { headers: Record<string, unknown>; content: { "application/json": Answer } } };
}

interface Coming {
  "/v1/streams/{stream}/histogram": {
    get: Operation<{ stream: string }, { start?: string; end?: string; buckets?: number }, Histogram>;
  };
  "/v1/admin/connections": {
    get: Operation<
      Record<string, never>,
      { limit?: number; cursor?: string },
      { connections: Connection[]; next_cursor: string | null }
    >;
  };
  "/v1/admin/connections/{id}": { delete: Operation<{ id: string }, never, undefined> };
}
