/** Shapes: what the contract says, under the names that are used here. */
import type { components, paths } from "./contract.d.ts";

export type Contract = paths;
export type Schemas = components["schemas"];

export type Stream = Schemas["Stream"];
export type Group = Schemas["Group"];
export type Entry = Schemas["Entry"];
export type Row = Schemas["Row"];
export type Pending = Schemas["PendingEntry"];
export type Consumer = Schemas["GroupConsumer"];
export type Policy = Schemas["Policy"];
export type Connection = Schemas["Connection"];
export type Schedule = Schemas["Schedule"];
export type Push = Schemas["Push"];
export type PushSummary = Schemas["PushSummary"];
export type PushAttempt = Schemas["PushAttempt"];
export type PushReplay = Schemas["PushReplay"];
export type Principal = Schemas["DescribedPrincipal"];
export type ApiKey = Schemas["DescribedKey"];
export type Grant = Schemas["KeyGrant"];
export type Bucket = Schemas["BucketState"];
export type Subscription = Schemas["FollowedSubscription"];

/** A history of the gateway or a group: a column for each series, a value for each time, null where it is unknown. */
export interface History {
  step_ms: number;
  times_ms: number[];
  series: Record<string, (number | null)[]>;
  observed?: boolean;
}
