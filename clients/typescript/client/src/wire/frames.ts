// Made by `npm run types` of openapi/asyncapi.json; not to be edited.

export type ClientFrame =
  | SubscribeFrame
  | UnsubscribeFrame
  | CreditFrame
  | AckFrame
  | NackFrame
  | ExtendFrame
  | AppendFrame
  | CommitFrame
  | PingFrame
  | AuthFrame;
export type OnDisconnect = "release" | "keep";
export type OnExpiry = "settle" | "dead_letter";
export type ServerFrame =
  | Welcome
  | Subscribed
  | Entries
  | Rows
  | State
  | Closed
  | Claimed
  | Acked
  | Ok
  | AppendedFrame
  | CommittedFrame
  | Unsubscribed
  | Draining
  | Pong
  | Authenticated
  | ProblemFrame
  | CommitProblemFrame;
/**
 * The outcome of an ack, nack or extend for one id.
 */
export type Outcome = "acked" | "released" | "extended" | "not_pending" | "claimed";

export interface Frames {
  client: ClientFrame;
  server: ServerFrame;
}
/**
 * Begin to read: a stream or all that match after a cursor, or as a consumer of a group.
 */
export interface SubscribeFrame {
  type: "subscribe";
  /**
   * Repeated in the answer.
   */
  rid?: string | null;
  /**
   * The client's name for it.
   */
  sub: string;
  stream?: string | null;
  /**
   * In place of a stream: all streams whose names match this pattern of Redis, those that are made later included. With a group: the group of that name in each of them.
   */
  match?: string | null;
  /**
   * With `match` and a group: create it where there is none.
   */
  create?: NewGroups | null;
  /**
   * Entries of a stream in each of its turns, by name; 1 for all others.
   */
  weights?: {
    [k: string]: number;
  };
  /**
   * Read as a consumer of this group.
   */
  group?: string | null;
  /**
   * Its consumer; without a name one is made, and removed in the end.
   */
  consumer?: string | null;
  /**
   * Without a group: an id, `$` for from now on, `+` for the last entry; with `match` a `position`, an id or `$`.
   */
  after?: string;
  /**
   * Without a group: only entries come for which it holds.
   */
  filter?:
    | {
        [k: string]: unknown;
      }
    | unknown[]
    | null;
  /**
   * `table`: all rows of a stream with a `key_field` come first, and then each change, in frames `rows`. With an id as `after`, only the changes.
   */
  view?: "entries" | "table";
  /**
   * Of a table: only rows whose keys begin with it.
   */
  prefix?: string | null;
  /**
   * Of a table: collect changes for so long, and send only the newest of a row.
   */
  conflate_ms?: number | null;
  /**
   * Number of entries that may come before more credit is given.
   */
  credit?: number;
  /**
   * Bytes of a frame that the client takes. An entry that takes more, even alone, ends the subscription with a problem that names it. Entries come together in a frame of up to 1 MiB, whatever is said here, and an entry that is larger comes alone.
   */
  frame_bytes_max?: number | null;
  /**
   * A settled or claimed entry gives its credit back.
   */
  auto_credit?: boolean;
  /**
   * Also take entries pending with anybody and idle for so long.
   */
  claim_idle_ms?: number | null;
  /**
   * Treatment of entries that are not settled in the end.
   */
  on_disconnect?: OnDisconnect | null;
  /**
   * `none`: entries are done with as they are sent.
   */
  ack?: "explicit" | "none";
}
/**
 * The groups that are created in matching streams that have none of this name.
 */
export interface NewGroups {
  /**
   * Read after this id; `$` is the last one, `0` reads everything.
   */
  start?: string;
  policy?: Policy | null;
}
/**
 * The policy of a group, which it follows by itself; every part may be left out or null.
 */
export interface Policy {
  /**
   * Reads that do not say it take over entries idle for so long.
   */
  claim_idle_ms?: number | null;
  /**
   * An entry delivered so often goes to `dead_letter_stream` when it fails.
   */
  max_deliveries?: number | null;
  /**
   * Where such entries go, with `_stream`, `_id`, `_group`, `_deliveries` and `_reason` behind their own fields; then `_error`, if a nack carried one.
   */
  dead_letter_stream?: string | null;
  /**
   * How long a failed entry rests before its 2nd, 3rd … delivery.
   */
  backoff_ms?: number[] | null;
  /**
   * A consumer with so many unacknowledged entries gets no more.
   */
  max_pending?: number | null;
  /**
   * What becomes of a connection's unacknowledged entries in the end.
   */
  on_disconnect?: OnDisconnect | null;
  /**
   * A consumer idle for so long, with nothing pending, is removed.
   */
  consumer_ttl_ms?: number | null;
  /**
   * Conditions on fields, in the dialects of CloudEvents subscriptions, that all must hold. The group passes by entries that do not meet them.
   */
  filters?:
    | {
        [k: string]: unknown;
      }[]
    | null;
  /**
   * The group delivers nothing before this unix time.
   */
  paused_until_ms?: number | null;
  /**
   * The group delivers so many entries a second, at most.
   */
  rate_per_s?: number | null;
  /**
   * So many may come at once after a rest; `rate_per_s` unless given.
   */
  rate_burst?: number | null;
  /**
   * Entries with the same value of this field are delivered in order: the next one when the one before is acknowledged or a dead letter.
   */
  key_field?: string | null;
  /**
   * So many with the same value are pending at once; 1 unless given.
   */
  key_pending_max?: number | null;
  /**
   * So many entries are held back until others with their value are settled; 10,000 unless given, 100,000 at most. The group reads no further then. With `fair_field`, so many are indexed ahead; 10,000,000 unless given. Those behind them wait in order.
   */
  key_ahead_max?: number | null;
  /**
   * What becomes of entries whose deadline is over; `dead_letter` needs a `dead_letter_stream`.
   */
  on_expiry?: OnExpiry | null;
  /**
   * Values of this field take turns: however many entries wait with one value, those with another come next. Entries without the field share one turn.
   */
  fair_field?: string | null;
  /**
   * So many entries of a value in its turn, by value; 1 of all others.
   */
  weights?: {
    [k: string]: number;
  } | null;
  /**
   * Entries with a higher digit, 0 to 9, in this field come first; 0 if there is none.
   */
  priority_field?: string | null;
  /**
   * An entry that waits rises by one priority in so long.
   */
  priority_age_ms?: number | null;
}
/**
 * End a subscription; what is not settled goes back, or is kept.
 */
export interface UnsubscribeFrame {
  type: "unsubscribe";
  /**
   * Repeated in the answer.
   */
  rid?: string | null;
  /**
   * The client's name for it.
   */
  sub: string;
}
/**
 * Let so many more entries come; never answered.
 */
export interface CreditFrame {
  /**
   * The client's name for it.
   */
  sub?: string;
  type: "credit";
  entries: number;
}
/**
 * Acknowledge entries: by id, or all sent up to one.
 */
export interface AckFrame {
  /**
   * The client's name for it.
   */
  sub?: string;
  /**
   * With `match`: the stream of these entries.
   */
  stream?: string | null;
  type: "ack";
  /**
   * Repeated in the answer.
   */
  rid?: string | null;
  ids?: string[] | null;
  up_to?: string | null;
}
/**
 * Give entries back.
 */
export interface NackFrame {
  /**
   * The client's name for it.
   */
  sub?: string;
  /**
   * With `match`: the stream of these entries.
   */
  stream?: string | null;
  type: "nack";
  /**
   * Repeated in the answer.
   */
  rid?: string | null;
  /**
   * @minItems 1
   * @maxItems 10000
   */
  ids: string[];
  mode?: "silent" | "fail" | "fatal";
  /**
   * Nobody gets them before that.
   */
  delay_ms?: number | null;
  /**
   * Error of the consumer.
   */
  error?: string | null;
}
/**
 * Restart the idle clock of entries.
 */
export interface ExtendFrame {
  /**
   * The client's name for it.
   */
  sub?: string;
  /**
   * With `match`: the stream of these entries.
   */
  stream?: string | null;
  type: "extend";
  /**
   * Repeated in the answer.
   */
  rid?: string | null;
  /**
   * @minItems 1
   * @maxItems 10000
   */
  ids: string[];
}
/**
 * Append entries, all or none.
 */
export interface AppendFrame {
  type: "append";
  /**
   * Repeated in the answer.
   */
  rid?: string | null;
  stream: string;
  /**
   * @minItems 1
   */
  entries: EntryInput[];
}
/**
 * An entry to append.
 */
export interface EntryInput {
  fields?: FieldMap | null;
  /**
   * Names of fields whose values are base64 text of bytes.
   */
  base64?: string[] | null;
  /**
   * Instead of `fields`, where names repeat or their order matters.
   */
  pairs?: string[][] | null;
  /**
   * All names are base64 text of bytes.
   */
  names_base64?: boolean;
  /**
   * Groups deliver it so much later. Up to 90 days.
   */
  delay_ms?: number | null;
  /**
   * Instead: groups deliver it no sooner than this unix time.
   */
  deliver_at_ms?: number | null;
  /**
   * Groups deliver it for so long, from now on, and then no more.
   */
  ttl_ms?: number | null;
  /**
   * Instead: groups deliver it until this unix time.
   */
  expires_at_ms?: number | null;
  /**
   * `*`, `ms-*`, or an explicit id above the last.
   */
  id?: string;
}
/**
 * The entry's fields.
 */
export interface FieldMap {
  [k: string]: string;
}
/**
 * Carry out steps together: all of them, at one moment, or none.
 */
export interface CommitFrame {
  /**
   * The consumer that settles entries.
   */
  consumer?: string | null;
  /**
   * @minItems 1
   * @maxItems 100
   */
  steps: CommitStepInput[];
  type: "commit";
  /**
   * Repeated in the answer.
   */
  rid?: string | null;
  /**
   * Names this commit: sent again with the same key, it changes nothing and has the same answer.
   */
  idempotency_key?: string | null;
}
/**
 * A step of a commit: an object with one of these members.
 */
export interface CommitStepInput {
  append?: CommitAppend | null;
  put_row?: CommitPutRow | null;
  delete_row?: CommitDeleteRow | null;
  ack?: CommitAck | null;
  nack?: CommitNack | null;
  extend?: CommitExtend | null;
  schedule?: CommitSchedule | null;
  cancel?: CommitCancel | null;
}
/**
 * Append entries to a stream. Their ids are given by the stream.
 */
export interface CommitAppend {
  /**
   * Name of the stream, group, consumer or timer.
   */
  stream: string;
  /**
   * @minItems 1
   * @maxItems 500
   */
  entries: NewEntry[];
  /**
   * Only if this is the stream's last id before the commit.
   */
  if_last_id?: string | null;
  /**
   * Create the stream if it is not there.
   */
  create_stream?: boolean;
}
/**
 * An entry to append, whose id the stream chooses.
 */
export interface NewEntry {
  fields?: FieldMap | null;
  /**
   * Names of fields whose values are base64 text of bytes.
   */
  base64?: string[] | null;
  /**
   * Instead of `fields`, where names repeat or their order matters.
   */
  pairs?: string[][] | null;
  /**
   * All names are base64 text of bytes.
   */
  names_base64?: boolean;
  /**
   * Groups deliver it so much later. Up to 90 days.
   */
  delay_ms?: number | null;
  /**
   * Instead: groups deliver it no sooner than this unix time.
   */
  deliver_at_ms?: number | null;
  /**
   * Groups deliver it for so long, from now on, and then no more.
   */
  ttl_ms?: number | null;
  /**
   * Instead: groups deliver it until this unix time.
   */
  expires_at_ms?: number | null;
}
/**
 * Write the row of a key. The key field is added.
 */
export interface CommitPutRow {
  fields?: FieldMap | null;
  /**
   * Names of fields whose values are base64 text of bytes.
   */
  base64?: string[] | null;
  /**
   * Instead of `fields`, where names repeat or their order matters.
   */
  pairs?: string[][] | null;
  /**
   * All names are base64 text of bytes.
   */
  names_base64?: boolean;
  /**
   * Name of the stream, group, consumer or timer.
   */
  stream: string;
  /**
   * Name of the stream, group, consumer or timer.
   */
  key: string;
  /**
   * Only if this is the id of the row before the commit.
   */
  if_match?: string | null;
  /**
   * Instead: only if there is no such row before the commit.
   */
  if_none_match?: "*" | null;
}
/**
 * Remove the row of a key.
 */
export interface CommitDeleteRow {
  /**
   * Name of the stream, group, consumer or timer.
   */
  stream: string;
  /**
   * Name of the stream, group, consumer or timer.
   */
  key: string;
  /**
   * Only if this is the id of the row before the commit.
   */
  if_match?: string | null;
  /**
   * Instead: only if there is no such row before the commit.
   */
  if_none_match?: "*" | null;
}
/**
 * Acknowledge entries of the consumer.
 */
export interface CommitAck {
  /**
   * @minItems 1
   */
  ids: string[];
  /**
   * Name of the stream, group, consumer or timer.
   */
  stream: string;
  /**
   * Name of the stream, group, consumer or timer.
   */
  group: string;
  /**
   * The delivery count of each id, as it came with the entry: the commit fails if an entry was delivered again since, even to the same consumer.
   */
  deliveries?: number[] | null;
}
/**
 * Give entries of the consumer back.
 */
export interface CommitNack {
  /**
   * `silent`: it was never tried, and does not count. `fail`: it was tried. `fatal`: it cannot work; its count becomes the greatest there is.
   */
  mode?: "silent" | "fail" | "fatal";
  /**
   * Nobody gets them before that; the group's `backoff_ms` if it is left out.
   */
  delay_ms?: number | null;
  /**
   * Error of the consumer. It comes as `last_error` with the next delivery, and goes into the dead letter as `_error`.
   */
  error?: string | null;
  /**
   * @minItems 1
   */
  ids: string[];
  /**
   * Name of the stream, group, consumer or timer.
   */
  stream: string;
  /**
   * Name of the stream, group, consumer or timer.
   */
  group: string;
  /**
   * The delivery count of each id, as it came with the entry: the commit fails if an entry was delivered again since, even to the same consumer.
   */
  deliveries?: number[] | null;
}
/**
 * Restart the idle time of entries of the consumer.
 */
export interface CommitExtend {
  /**
   * @minItems 1
   */
  ids: string[];
  /**
   * Name of the stream, group, consumer or timer.
   */
  stream: string;
  /**
   * Name of the stream, group, consumer or timer.
   */
  group: string;
  /**
   * The delivery count of each id, as it came with the entry: the commit fails if an entry was delivered again since, even to the same consumer.
   */
  deliveries?: number[] | null;
}
/**
 * Append an entry at a time, once. A timer that has the name already is replaced.
 */
export interface CommitSchedule {
  fields?: FieldMap | null;
  /**
   * Names of fields whose values are base64 text of bytes.
   */
  base64?: string[] | null;
  /**
   * Instead of `fields`, where names repeat or their order matters.
   */
  pairs?: string[][] | null;
  /**
   * All names are base64 text of bytes.
   */
  names_base64?: boolean;
  /**
   * Name of the stream, group, consumer or timer.
   */
  name: string;
  /**
   * Name of the stream, group, consumer or timer.
   */
  stream: string;
  /**
   * Unix time at which the entry is appended.
   */
  at_ms: number;
}
/**
 * Delete a timer, or any schedule, if it is there.
 */
export interface CommitCancel {
  /**
   * Name of the stream, group, consumer or timer.
   */
  name: string;
}
/**
 * Ask for a pong.
 */
export interface PingFrame {
  type: "ping";
  /**
   * Repeated in the answer.
   */
  rid?: string | null;
}
/**
 * Present a credential, or renew it before it ends.
 *
 * It is the first frame where the handshake carries no credential. A renewal is of the same
 * principal. Subscriptions that it does not allow end; all others go on without a gap.
 */
export interface AuthFrame {
  type: "auth";
  /**
   * Repeated in the answer.
   */
  rid?: string | null;
  /**
   * A key or a token.
   */
  token: string;
}
/**
 * The first frame, once it is known who is there.
 */
export interface Welcome {
  type: "welcome";
  /**
   * Identity of this connection, for logs.
   */
  connection: string;
  /**
   * Protocol pings come so often.
   */
  heartbeat_ms: number;
  limits: ConnectionLimits;
}
/**
 * The bounds of one connection.
 */
export interface ConnectionLimits {
  /**
   * Subscriptions of one WebSocket.
   */
  subscriptions_max: number;
  /**
   * Those of them that follow all streams that match a pattern.
   */
  patterns_max: number;
  /**
   * Most credit a subscription may hold.
   */
  credit_max: number;
  /**
   * Largest WebSocket frame, once inflated.
   */
  frame_bytes_max: number;
  /**
   * Entries in one batch.
   */
  batch_entries_max: number;
  /**
   * Time until a client that takes nothing is cut off.
   */
  send_ms_max: number;
  /**
   * After so long a connection is told to come back; null: it may stay.
   */
  connection_ms_max: number | null;
  /**
   * Ids in one frame.
   */
  frame_ids_max: number;
}
/**
 * The subscription stands.
 */
export interface Subscribed {
  type: "subscribed";
  rid?: string | null;
  sub: string;
  /**
   * Entries come from after this.
   */
  position: string;
  consumer?: string | null;
  /**
   * Entries the consumer holds already.
   */
  pending?: number | null;
  /**
   * Trimmed entries before the first one.
   */
  gap?: Gap | null;
}
/**
 * Entries a reader missed because they were trimmed, or their stream was deleted: above `from`, up to `to`. If `from` is the greater one, the stream was made anew or restored and ends at `to`: reading goes on there.
 */
export interface Gap {
  /**
   * Entry id.
   */
  from: string;
  /**
   * Entry id.
   */
  to: string;
}
/**
 * Entries, as many as were ready.
 */
export interface Entries {
  type: "entries";
  sub: string;
  entries: Entry[] | StreamEntry[] | Delivery[] | StreamDelivery[];
  deleted_ids?: string[];
  credit_left: number;
  lag?: number;
  gap?: Gap;
  gaps?: StreamGap[];
  /**
   * With a pattern, the cursor behind all that was sent. With a filter: subscribe again after this id, as no entry between the last one sent and this one matches.
   */
  position?: string;
}
/**
 * One element of a stream.
 */
export interface Entry {
  /**
   * Entry id.
   */
  id: string;
  fields: FieldMap;
  /**
   * Names of fields whose values are base64 text of bytes.
   */
  base64?: string[];
  /**
   * All fields in order, where a name repeats.
   */
  pairs?: string[][];
  /**
   * True if a name is not UTF-8: then all names are base64 text.
   */
  names_base64?: boolean;
  /**
   * Groups deliver it no sooner than this unix time.
   */
  deliver_at_ms?: number;
  /**
   * Groups deliver it no more from this unix time on.
   */
  expires_at_ms?: number;
}
/**
 * An entry of one of several streams.
 */
export interface StreamEntry {
  /**
   * Entry id.
   */
  id: string;
  fields: FieldMap;
  /**
   * Names of fields whose values are base64 text of bytes.
   */
  base64?: string[];
  /**
   * All fields in order, where a name repeats.
   */
  pairs?: string[][];
  /**
   * True if a name is not UTF-8: then all names are base64 text.
   */
  names_base64?: boolean;
  /**
   * Groups deliver it no sooner than this unix time.
   */
  deliver_at_ms?: number;
  /**
   * Groups deliver it no more from this unix time on.
   */
  expires_at_ms?: number;
  stream: string;
}
/**
 * An entry handed to a consumer.
 */
export interface Delivery {
  /**
   * Entry id.
   */
  id: string;
  fields: FieldMap;
  /**
   * Names of fields whose values are base64 text of bytes.
   */
  base64?: string[];
  /**
   * All fields in order, where a name repeats.
   */
  pairs?: string[][];
  /**
   * True if a name is not UTF-8: then all names are base64 text.
   */
  names_base64?: boolean;
  /**
   * Groups deliver it no sooner than this unix time.
   */
  deliver_at_ms?: number;
  /**
   * Groups deliver it no more from this unix time on.
   */
  expires_at_ms?: number;
  /**
   * Number of its deliveries, this one included.
   */
  deliveries: number;
  /**
   * Idle time when it was claimed.
   */
  idle_ms: number;
  /**
   * Whom it was taken from.
   */
  claimed_from?: string;
  /**
   * The error of its last nack that had one.
   */
  last_error?: string;
}
/**
 * An entry of one of several streams, handed to a consumer.
 */
export interface StreamDelivery {
  /**
   * Entry id.
   */
  id: string;
  fields: FieldMap;
  /**
   * Names of fields whose values are base64 text of bytes.
   */
  base64?: string[];
  /**
   * All fields in order, where a name repeats.
   */
  pairs?: string[][];
  /**
   * True if a name is not UTF-8: then all names are base64 text.
   */
  names_base64?: boolean;
  /**
   * Groups deliver it no sooner than this unix time.
   */
  deliver_at_ms?: number;
  /**
   * Groups deliver it no more from this unix time on.
   */
  expires_at_ms?: number;
  /**
   * Number of its deliveries, this one included.
   */
  deliveries: number;
  /**
   * Idle time when it was claimed.
   */
  idle_ms: number;
  /**
   * Whom it was taken from.
   */
  claimed_from?: string;
  /**
   * The error of its last nack that had one.
   */
  last_error?: string;
  stream: string;
}
/**
 * The same, of one of several streams.
 */
export interface StreamGap {
  stream: string;
  /**
   * Entry id.
   */
  from: string;
  /**
   * Entry id.
   */
  to: string;
}
/**
 * Rows of a table: all of them before `caught_up`, then each change.
 */
export interface Rows {
  type: "rows";
  sub: string;
  rows: (Row | RowRemoval)[];
  credit_left: number;
  /**
   * All rows come again: forget those before.
   */
  again?: true;
  gap?: Gap;
  /**
   * Of changes: subscribe again after this id.
   */
  position?: string;
}
/**
 * The latest entry of a key.
 */
export interface Row {
  /**
   * Entry id.
   */
  id: string;
  fields: FieldMap;
  /**
   * Names of fields whose values are base64 text of bytes.
   */
  base64?: string[];
  /**
   * All fields in order, where a name repeats.
   */
  pairs?: string[][];
  /**
   * True if a name is not UTF-8: then all names are base64 text.
   */
  names_base64?: boolean;
  /**
   * Groups deliver it no sooner than this unix time.
   */
  deliver_at_ms?: number;
  /**
   * Groups deliver it no more from this unix time on.
   */
  expires_at_ms?: number;
  /**
   * The value of the key field. One that is no text is written as `base64:` and base64 text, and so is one that is empty or begins with `base64:`.
   */
  key: string;
}
/**
 * A row that is gone, by an entry with the `tombstone_field`.
 */
export interface RowRemoval {
  /**
   * The value of the key field. One that is no text is written as `base64:` and base64 text, and so is one that is empty or begins with `base64:`.
   */
  key: string;
  /**
   * Entry id.
   */
  id: string;
  fields: null;
}
/**
 * Why nothing comes, or that it does again.
 */
export interface State {
  type: "state";
  sub: string;
  state: "live" | "caught_up" | "credit_exhausted" | "max_pending" | "key_blocked" | "paused" | "rate_limited";
}
/**
 * The stream is closed, and all of it has come; of a group, all is settled by all consumers.
 *
 * The subscription ends, and `unsubscribed` follows.
 */
export interface Closed {
  type: "closed";
  sub: string;
  /**
   * Nothing comes behind this id.
   */
  at: string;
  /**
   * When the stream was closed.
   */
  closed_at_ms: number;
}
/**
 * Entries you held belong to another consumer now.
 */
export interface Claimed {
  type: "claimed";
  sub: string;
  ids: string[];
  by: string;
}
/**
 * The outcome of an ack, for each id.
 */
export interface Acked {
  type: "acked";
  rid?: string;
  sub: string;
  stream?: string;
  results: Settled[];
}
/**
 * The outcome of one id.
 */
export interface Settled {
  /**
   * Entry id.
   */
  id: string;
  outcome: Outcome;
}
/**
 * The outcome of a nack or extend, for each id.
 */
export interface Ok {
  type: "ok";
  rid?: string;
  sub: string;
  stream?: string;
  results: Settled[];
}
/**
 * The entries are appended, and safe.
 */
export interface AppendedFrame {
  type: "appended";
  rid?: string | null;
  ids: string[];
}
/**
 * The steps are carried out, and safe.
 */
export interface CommittedFrame {
  type: "committed";
  rid?: string | null;
  /**
   * What came of each step, in order.
   */
  results: CommitResult[];
  /**
   * Nothing was changed: this is what the key's first use made.
   */
  repeated?: true | null;
}
/**
 * What came of a step.
 */
export interface CommitResult {
  /**
   * The entries that the step has appended.
   */
  ids?: string[];
}
/**
 * A subscription has ended: you asked for it, or what it read is gone, or closed and read.
 */
export interface Unsubscribed {
  type: "unsubscribed";
  rid?: string | null;
  sub: string;
  reason: "requested" | "closed" | "gone" | "failed";
}
/**
 * The connection is about to end; come back after so long.
 */
export interface Draining {
  type: "draining";
  reconnect_after_ms: number;
}
/**
 * The answer to a ping.
 */
export interface Pong {
  type: "pong";
  rid?: string | null;
}
/**
 * It is known who is there.
 */
export interface Authenticated {
  type: "authenticated";
  rid?: string | null;
  /**
   * Name of the key, or subject of the token.
   */
  principal: string;
  /**
   * Renew the credential before this time.
   */
  expires_at_ms?: number | null;
}
/**
 * A frame that could not be served, or why the connection ends.
 */
export interface ProblemFrame {
  type: "problem";
  rid?: string | null;
  sub?: string | null;
  problem: Problem;
}
/**
 * Why a request was not served. Nothing was changed.
 */
export interface Problem {
  /**
   * Page of this gateway: what the problem means, and what to do.
   */
  type: string;
  /**
   * The status in words.
   */
  title: string;
  /**
   * The HTTP status.
   */
  status: number;
  /**
   * The problem, for people.
   */
  detail: string;
  /**
   * The path that was asked for.
   */
  instance: string;
  /**
   * The problem, for programs.
   */
  code:
    | "malformed"
    | "invalid_id"
    | "consumer_required"
    | "consumer_conflict"
    | "unauthenticated"
    | "forbidden"
    | "origin_refused"
    | "stream_not_found"
    | "group_not_found"
    | "entry_not_found"
    | "entry_referenced"
    | "not_found"
    | "method_not_allowed"
    | "not_acceptable"
    | "group_exists"
    | "stream_exists"
    | "stream_closed"
    | "content_type_mismatch"
    | "out_of_sequence"
    | "producer_fenced"
    | "gone"
    | "wrong_type"
    | "id_not_greater"
    | "staged_missing"
    | "limit_reached"
    | "last_id_mismatch"
    | "too_large"
    | "unsupported_media_type"
    | "header_too_large"
    | "invalid_request"
    | "idempotency_mismatch"
    | "too_many_waiters"
    | "too_many_connections"
    | "rate_limited"
    | "overloaded"
    | "unavailable"
    | "not_leader"
    | "draining"
    | "cut_off"
    | "memory_full"
    | "extra_missing"
    | "not_supported"
    | "internal";
  /**
   * Whether the same request may succeed later.
   */
  retryable: boolean;
  /**
   * When to try again, if known.
   */
  retry_after_ms?: number | null;
  /**
   * The faults, each with its place.
   */
  errors?: ProblemError[] | null;
  /**
   * The stream's last id, where that was the matter.
   */
  last_id?: string | null;
  /**
   * The entry that is too large for its reader, where that was the matter.
   */
  entry_id?: string | null;
  /**
   * Of a commit: the number of the step that failed, from 0.
   */
  step?: number | null;
  /**
   * Of `not_leader`: the address of the gateway that leads, if it is known.
   */
  leader?: string | null;
  /**
   * `X-Request-Id` of the answer or of the WebSocket, as the log has it.
   */
  request_id?: string | null;
}
/**
 * One thing that is wrong with a request.
 */
export interface ProblemError {
  /**
   * The place: a JSON pointer below `/body`, `/query`, `/path` or `/header`.
   */
  pointer: string;
  /**
   * The fault there.
   */
  detail: string;
}
/**
 * Why a commit did nothing.
 */
export interface CommitProblemFrame {
  type: "problem";
  rid?: string | null;
  sub?: string | null;
  problem: FenceProblem | RowProblem | Problem;
}
/**
 * Why a commit did nothing: entries are not pending with its consumer.
 */
export interface FenceProblem {
  /**
   * Page of this gateway: what the problem means, and what to do.
   */
  type: string;
  /**
   * The status in words.
   */
  title: string;
  /**
   * The HTTP status.
   */
  status: number;
  /**
   * The problem, for people.
   */
  detail: string;
  /**
   * The path that was asked for.
   */
  instance: string;
  /**
   * The problem, for programs.
   */
  code: "not_yours";
  /**
   * Whether the same request may succeed later.
   */
  retryable: boolean;
  /**
   * When to try again, if known.
   */
  retry_after_ms?: number | null;
  /**
   * The faults, each with its place.
   */
  errors?: ProblemError[] | null;
  /**
   * The stream's last id, where that was the matter.
   */
  last_id?: string | null;
  /**
   * The entry that is too large for its reader, where that was the matter.
   */
  entry_id?: string | null;
  /**
   * Of a commit: the number of the step that failed, from 0.
   */
  step?: number | null;
  /**
   * Of `not_leader`: the address of the gateway that leads, if it is known.
   */
  leader?: string | null;
  /**
   * `X-Request-Id` of the answer or of the WebSocket, as the log has it.
   */
  request_id?: string | null;
  /**
   * These entries, and who holds them.
   */
  held: HeldEntry[];
}
/**
 * An entry that is not pending with the consumer of a commit.
 */
export interface HeldEntry {
  /**
   * Entry id.
   */
  id: string;
  /**
   * Who holds it; left out: nobody.
   */
  consumer?: string | null;
  /**
   * Its delivery count; left out: it is not pending, or settled.
   */
  deliveries?: number | null;
}
/**
 * Why a row was not changed: it is not as the request expects it.
 */
export interface RowProblem {
  /**
   * Page of this gateway: what the problem means, and what to do.
   */
  type: string;
  /**
   * The status in words.
   */
  title: string;
  /**
   * The HTTP status.
   */
  status: number;
  /**
   * The problem, for people.
   */
  detail: string;
  /**
   * The path that was asked for.
   */
  instance: string;
  /**
   * The problem, for programs.
   */
  code: "row_changed";
  /**
   * Whether the same request may succeed later.
   */
  retryable: boolean;
  /**
   * When to try again, if known.
   */
  retry_after_ms?: number | null;
  /**
   * The faults, each with its place.
   */
  errors?: ProblemError[] | null;
  /**
   * The stream's last id, where that was the matter.
   */
  last_id?: string | null;
  /**
   * The entry that is too large for its reader, where that was the matter.
   */
  entry_id?: string | null;
  /**
   * Of a commit: the number of the step that failed, from 0.
   */
  step?: number | null;
  /**
   * Of `not_leader`: the address of the gateway that leads, if it is known.
   */
  leader?: string | null;
  /**
   * `X-Request-Id` of the answer or of the WebSocket, as the log has it.
   */
  request_id?: string | null;
  /**
   * The row as it is, if there is one.
   */
  row?: {
    [k: string]: unknown;
  } | null;
}
