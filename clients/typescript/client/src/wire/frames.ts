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
  | PublishFrame
  | PresenceFrame
  | PingFrame
  | AuthFrame;
export type OnDisconnect = "release" | "keep";
export type OnExpiry = "settle" | "dead_letter";
export type ServerFrame =
  | Welcome
  | Subscribed
  | MessageFrame
  | MembersFrame
  | PresenceChange
  | PublishedFrame
  | Noted
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
 * Subscribe to a stream or all streams that match, to a group, or to a channel.
 */
export interface SubscribeFrame {
  type: "subscribe";
  /**
   * Repeated in the answer.
   */
  rid?: string | null;
  /**
   * Name of the subscription, chosen by the client.
   */
  sub: string;
  stream?: string | null;
  /**
   * Instead of `stream`: the channel whose messages to receive.
   */
  channel?: string | null;
  /**
   * With a channel or a stream: be present, and see who else is.
   */
  presence?: PresenceForm | null;
  /**
   * Instead of `stream`: follow all streams whose names match this Redis glob pattern, including streams that are created later. With `group`: read the group of that name in each of them.
   */
  match?: string | null;
  /**
   * With `match` and `group`: create the group in streams that lack it.
   */
  create?: MissingGroups | null;
  /**
   * Number of entries per turn, by name of the stream. Default: 1.
   */
  weights?: {
    [k: string]: number;
  };
  /**
   * Name of the group to read as a consumer.
   */
  group?: string | null;
  /**
   * Name of the consumer. Default: the gateway creates one and removes it at the end.
   */
  consumer?: string | null;
  /**
   * Without `group`: start after an id, `$` for new entries only, `+` for the last entry. With `match`: a `position`, an id or `$`.
   */
  after?: string;
  /**
   * Without `group`: only matching entries are sent.
   */
  filter?:
    | {
        [k: string]: unknown;
      }
    | unknown[]
    | null;
  /**
   * `table`: send all rows of a stream with a `key_field`, then each change, in frames `rows`. With an id in `after`: only the changes.
   */
  view?: "entries" | "table";
  /**
   * With a table: only rows whose keys begin with this.
   */
  prefix?: string | null;
  /**
   * With a table: collect changes for this long, and send only the newest one of each row.
   */
  conflate_ms?: number | null;
  /**
   * Number of entries that the gateway may send before it needs more credit.
   */
  credit?: number;
  /**
   * Maximum size of a frame for the client. An entry that exceeds it even alone ends the subscription, with a problem that names the entry. Frames of several entries have at most 1 MiB in any case; a larger entry is sent alone.
   */
  frame_bytes_max?: number | null;
  /**
   * Return the credit of an entry when it is settled or claimed.
   */
  auto_credit?: boolean;
  /**
   * Also claim entries that have been pending with any consumer and idle for this long.
   */
  claim_idle_ms?: number | null;
  /**
   * What to do with unsettled entries at the end.
   */
  on_disconnect?: OnDisconnect | null;
  /**
   * `none`: entries are settled as soon as they are sent.
   */
  ack?: "explicit" | "none";
}
/**
 * Presence at a channel or a stream. `members` and `presence` say who is present.
 */
export interface PresenceForm {
  /**
   * Data about this connection that others see: at most 1,024 bytes of JSON.
   */
  data?: {
    [k: string]: unknown;
  };
  /**
   * Name for this connection. If a page keeps it across a reload, nobody sees the page leave.
   */
  key?: string | null;
  /**
   * See who is present without being listed.
   */
  hidden?: boolean;
}
/**
 * How to create the group in matching streams that lack it.
 */
export interface MissingGroups {
  /**
   * Read entries after this id; `$` is the last id, `0` reads all entries.
   */
  start?: string;
  policy?: Policy | null;
}
/**
 * Rules that a group applies automatically. All parts are optional and may be null.
 */
export interface Policy {
  /**
   * Default `claim_idle_ms` of reads: they take over entries that have been idle for this long.
   */
  claim_idle_ms?: number | null;
  /**
   * Number of deliveries after which an entry that fails is moved to `dead_letter_stream`.
   */
  max_deliveries?: number | null;
  /**
   * Stream for dead letters. Each has the fields of its entry, followed by `_stream`, `_id`, `_group`, `_deliveries` and `_reason`, and by `_error` if a nack gave an error.
   */
  dead_letter_stream?: string | null;
  /**
   * Delays before the 2nd, 3rd, … delivery of a failed entry.
   */
  backoff_ms?: number[] | null;
  /**
   * Maximum number of unacknowledged entries per consumer.
   */
  max_pending?: number | null;
  /**
   * What to do with a connection's unacknowledged entries when it ends for good.
   */
  on_disconnect?: OnDisconnect | null;
  /**
   * Idle time after which a consumer without pending entries is removed.
   */
  consumer_ttl_ms?: number | null;
  /**
   * Filters on fields, in the dialects of CloudEvents subscriptions. The group skips entries that do not match all of them.
   */
  filters?:
    | {
        [k: string]: unknown;
      }[]
    | null;
  /**
   * Unix time before which the group delivers nothing.
   */
  paused_until_ms?: number | null;
  /**
   * Maximum number of entries that the group delivers per second.
   */
  rate_per_s?: number | null;
  /**
   * Maximum number of entries in a burst after a quiet time. Default: `rate_per_s`.
   */
  rate_burst?: number | null;
  /**
   * Deliver entries with the same value of this field in order: the next entry follows when the previous one is acknowledged or a dead letter.
   */
  key_field?: string | null;
  /**
   * Maximum number of pending entries per value of `key_field`. Default: 1.
   */
  key_pending_max?: number | null;
  /**
   * Maximum number of entries held back until earlier entries with their value are settled. Default: 10,000; at most 100,000. At the limit, the group stops reading. With `fair_field`, number of entries indexed ahead. Default: 10,000,000. Further entries wait in order.
   */
  key_ahead_max?: number | null;
  /**
   * What to do with entries whose deadline has passed; `dead_letter` needs a `dead_letter_stream`.
   */
  on_expiry?: OnExpiry | null;
  /**
   * Values of this field take turns: however many entries one value has, the other values get their turns. Entries without the field share one turn.
   */
  fair_field?: string | null;
  /**
   * Number of entries per turn, by value. Default: 1.
   */
  weights?: {
    [k: string]: number;
  } | null;
  /**
   * Field with a priority from 0 to 9. Entries with a higher priority are delivered first. Default: 0.
   */
  priority_field?: string | null;
  /**
   * Waiting time after which an entry rises by one priority.
   */
  priority_age_ms?: number | null;
}
/**
 * End a subscription. Unsettled entries are given back or kept.
 */
export interface UnsubscribeFrame {
  type: "unsubscribe";
  /**
   * Repeated in the answer.
   */
  rid?: string | null;
  /**
   * Name of the subscription, chosen by the client.
   */
  sub: string;
}
/**
 * Allow this many more entries. There is no answer.
 */
export interface CreditFrame {
  /**
   * Name of the subscription, chosen by the client.
   */
  sub?: string;
  type: "credit";
  entries: number;
}
/**
 * Acknowledge entries: given ids, or all entries sent up to an id.
 */
export interface AckFrame {
  /**
   * Name of the subscription, chosen by the client.
   */
  sub?: string;
  /**
   * With `match`: stream of the entries.
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
   * Name of the subscription, chosen by the client.
   */
  sub?: string;
  /**
   * With `match`: stream of the entries.
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
   * Delay before the next delivery.
   */
  delay_ms?: number | null;
  /**
   * Error of the consumer.
   */
  error?: string | null;
}
/**
 * Restart the idle time of entries.
 */
export interface ExtendFrame {
  /**
   * Name of the subscription, chosen by the client.
   */
  sub?: string;
  /**
   * With `match`: stream of the entries.
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
   * Names of fields whose values are base64-encoded bytes.
   */
  base64?: string[] | null;
  /**
   * Use instead of `fields` if names repeat or their order matters.
   */
  pairs?: string[][] | null;
  /**
   * All names are base64-encoded bytes.
   */
  names_base64?: boolean;
  /**
   * Time until groups deliver the entry; up to 90 days.
   */
  delay_ms?: number | null;
  /**
   * Instead of `delay_ms`: unix time before which groups do not deliver the entry.
   */
  deliver_at_ms?: number | null;
  /**
   * Time from now after which groups no longer deliver the entry.
   */
  ttl_ms?: number | null;
  /**
   * Instead of `ttl_ms`: unix time after which groups no longer deliver the entry.
   */
  expires_at_ms?: number | null;
  /**
   * `*` to generate an id, `ms-*` to generate the sequence, or an explicit id above the last one.
   */
  id?: string;
}
/**
 * Fields of the entry.
 */
export interface FieldMap {
  [k: string]: string;
}
/**
 * Apply several steps atomically: all of them at one moment, or none.
 */
export interface CommitFrame {
  /**
   * Consumer that holds the entries to settle.
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
   * Identifies this commit. If it is sent again with the same key, nothing is changed and the answer is the same.
   */
  idempotency_key?: string | null;
}
/**
 * A step of a commit: an object with exactly one of these members.
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
 * Append entries to a stream. The stream generates their ids.
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
  entries: EntryDraft[];
  /**
   * Fail unless this is the last id of the stream before the commit.
   */
  if_last_id?: string | null;
  /**
   * Create the stream if it does not exist.
   */
  create_stream?: boolean;
}
/**
 * An entry to append. The stream generates its id.
 */
export interface EntryDraft {
  fields?: FieldMap | null;
  /**
   * Names of fields whose values are base64-encoded bytes.
   */
  base64?: string[] | null;
  /**
   * Use instead of `fields` if names repeat or their order matters.
   */
  pairs?: string[][] | null;
  /**
   * All names are base64-encoded bytes.
   */
  names_base64?: boolean;
  /**
   * Time until groups deliver the entry; up to 90 days.
   */
  delay_ms?: number | null;
  /**
   * Instead of `delay_ms`: unix time before which groups do not deliver the entry.
   */
  deliver_at_ms?: number | null;
  /**
   * Time from now after which groups no longer deliver the entry.
   */
  ttl_ms?: number | null;
  /**
   * Instead of `ttl_ms`: unix time after which groups no longer deliver the entry.
   */
  expires_at_ms?: number | null;
}
/**
 * Write the row of a key. The gateway adds the key field.
 */
export interface CommitPutRow {
  fields?: FieldMap | null;
  /**
   * Names of fields whose values are base64-encoded bytes.
   */
  base64?: string[] | null;
  /**
   * Use instead of `fields` if names repeat or their order matters.
   */
  pairs?: string[][] | null;
  /**
   * All names are base64-encoded bytes.
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
   * Fail unless this is the id of the row before the commit.
   */
  if_match?: string | null;
  /**
   * Instead of `if_match`: fail if the row exists before the commit.
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
   * Fail unless this is the id of the row before the commit.
   */
  if_match?: string | null;
  /**
   * Instead of `if_match`: fail if the row exists before the commit.
   */
  if_none_match?: "*" | null;
}
/**
 * Acknowledge entries that the consumer holds.
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
   * Delivery count of each id, as received with the entry. The commit fails if an entry was delivered again since, even to the same consumer.
   */
  deliveries?: number[] | null;
}
/**
 * Give back entries that the consumer holds.
 */
export interface CommitNack {
  /**
   * `silent`: the entry was not tried; the delivery does not count. `fail`: it was tried and failed. `fatal`: it can never succeed; its delivery count becomes the maximum.
   */
  mode?: "silent" | "fail" | "fatal";
  /**
   * Delay before the next delivery. Default: the `backoff_ms` of the group.
   */
  delay_ms?: number | null;
  /**
   * Error of the consumer. The next delivery has it as `last_error`, a dead letter as `_error`.
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
   * Delivery count of each id, as received with the entry. The commit fails if an entry was delivered again since, even to the same consumer.
   */
  deliveries?: number[] | null;
}
/**
 * Restart the idle time of entries that the consumer holds.
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
   * Delivery count of each id, as received with the entry. The commit fails if an entry was delivered again since, even to the same consumer.
   */
  deliveries?: number[] | null;
}
/**
 * Append an entry once, at a given time. This replaces a timer with the same name.
 */
export interface CommitSchedule {
  fields?: FieldMap | null;
  /**
   * Names of fields whose values are base64-encoded bytes.
   */
  base64?: string[] | null;
  /**
   * Use instead of `fields` if names repeat or their order matters.
   */
  pairs?: string[][] | null;
  /**
   * All names are base64-encoded bytes.
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
   * Unix time at which to append the entry.
   */
  at_ms: number;
}
/**
 * Delete a timer, or any other schedule, if it exists.
 */
export interface CommitCancel {
  /**
   * Name of the stream, group, consumer or timer.
   */
  name: string;
}
/**
 * Publish a message to the current subscribers of a channel. It is not stored.
 */
export interface PublishFrame {
  type: "publish";
  /**
   * Without it, only a problem is answered.
   */
  rid?: string | null;
  channel: string;
  /**
   * Any JSON value.
   */
  data: {
    [k: string]: unknown;
  };
}
/**
 * Change the data about this connection that others see.
 */
export interface PresenceFrame {
  /**
   * Name of the subscription, chosen by the client.
   */
  sub?: string;
  type: "presence";
  /**
   * Without it, only a problem is answered.
   */
  rid?: string | null;
  /**
   * At most 1,024 bytes of JSON.
   */
  data: {
    [k: string]: unknown;
  };
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
 * Present a credential, or renew it before it expires.
 *
 * This must be the first frame if the handshake had no credential. A renewal must be of the same
 * principal. Subscriptions that the new credential does not allow end. All others continue without
 * a gap.
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
 * The first frame, once the gateway knows the client.
 */
export interface Welcome {
  type: "welcome";
  /**
   * Id of this connection, as in the log.
   */
  connection: string;
  /**
   * Interval between protocol pings.
   */
  heartbeat_ms: number;
  limits: ConnectionLimits;
}
/**
 * Limits of one connection.
 */
export interface ConnectionLimits {
  /**
   * Maximum number of subscriptions per WebSocket.
   */
  subscriptions_max: number;
  /**
   * Maximum number of subscriptions per WebSocket that follow a pattern.
   */
  patterns_max: number;
  /**
   * Maximum credit of a subscription.
   */
  credit_max: number;
  /**
   * Maximum size of a WebSocket frame after decompression.
   */
  frame_bytes_max: number;
  /**
   * Maximum number of entries in one batch.
   */
  batch_entries_max: number;
  /**
   * Time after which a client that reads nothing is disconnected.
   */
  send_ms_max: number;
  /**
   * Time after which a connection is told to reconnect; null: no limit.
   */
  connection_ms_max: number | null;
  /**
   * Maximum number of ids in one frame.
   */
  frame_ids_max: number;
}
/**
 * The subscription has started.
 */
export interface Subscribed {
  type: "subscribed";
  rid?: string | null;
  sub: string;
  /**
   * Entries after this position are sent; `0-0` for a channel.
   */
  position: string;
  consumer?: string | null;
  /**
   * Entries that the consumer already holds.
   */
  pending?: number | null;
  /**
   * Trimmed entries before the first entry.
   */
  gap?: Gap | null;
}
/**
 * Entries that a reader missed because they were trimmed or their stream was deleted: ids above `from`, up to `to`. If `from` is greater than `to`, the stream was recreated or restored and ends at `to`; reading continues there.
 */
export interface Gap {
  /**
   * Id of an entry.
   */
  from: string;
  /**
   * Id of an entry.
   */
  to: string;
}
/**
 * A published message.
 */
export interface MessageFrame {
  type: "message";
  sub: string;
  channel: string;
  /**
   * The published data; as a string if it is not JSON.
   */
  data: {
    [k: string]: unknown;
  };
  /**
   * Number of messages before this one that the client was too slow to receive.
   */
  dropped?: number;
}
/**
 * The members that are present: at the start, and again if changes were dropped.
 *
 * The first of several such frames replaces all members known before.
 */
export interface MembersFrame {
  type: "members";
  sub: string;
  members: PresentMember[];
  /**
   * Whether another such frame with further members follows.
   */
  more: boolean;
  /**
   * False if the gateway has just started and members may not have reconnected yet. Keep the members known before until it is true.
   */
  settled: boolean;
}
/**
 * A member that is present: a user with all connections, or one connection without a user.
 */
export interface PresentMember {
  id: string;
  /**
   * Name of the key, or subject of the token; null without a credential.
   */
  user: string | null;
  connections: PresentConnection[];
}
/**
 * A connection of a member.
 */
export interface PresentConnection {
  /**
   * Name of the connection, chosen by the client.
   */
  key: string;
  /**
   * When the connection became present.
   */
  since_ms: number;
  /**
   * Data about the connection, from its client.
   */
  data: {
    [k: string]: unknown;
  };
}
/**
 * A member joined, changed or left.
 */
export interface PresenceChange {
  type: "presence";
  sub: string;
  event: "joined" | "updated" | "left";
  member: PresentMember;
}
/**
 * The message was published.
 */
export interface PublishedFrame {
  type: "published";
  rid?: string | null;
  /**
   * Number of subscribers of the channel.
   */
  receivers: number;
}
/**
 * The data about this connection was changed.
 */
export interface Noted {
  type: "noted";
  rid?: string | null;
  sub: string;
}
/**
 * Entries, as many as were available.
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
   * With a pattern: cursor after everything that was sent. With a filter: subscribe again after this id, because no entry between the last one sent and this id matches.
   */
  position?: string;
}
/**
 * An entry of a stream.
 */
export interface Entry {
  /**
   * Id of an entry.
   */
  id: string;
  fields: FieldMap;
  /**
   * Names of fields whose values are base64-encoded bytes.
   */
  base64?: string[];
  /**
   * All fields in order, if a name occurs more than once.
   */
  pairs?: string[][];
  /**
   * True if a name is not UTF-8. All names are then base64-encoded.
   */
  names_base64?: boolean;
  /**
   * Unix time before which groups do not deliver the entry.
   */
  deliver_at_ms?: number;
  /**
   * Unix time from which groups no longer deliver the entry.
   */
  expires_at_ms?: number;
}
/**
 * An entry of one of several streams.
 */
export interface StreamEntry {
  /**
   * Id of an entry.
   */
  id: string;
  fields: FieldMap;
  /**
   * Names of fields whose values are base64-encoded bytes.
   */
  base64?: string[];
  /**
   * All fields in order, if a name occurs more than once.
   */
  pairs?: string[][];
  /**
   * True if a name is not UTF-8. All names are then base64-encoded.
   */
  names_base64?: boolean;
  /**
   * Unix time before which groups do not deliver the entry.
   */
  deliver_at_ms?: number;
  /**
   * Unix time from which groups no longer deliver the entry.
   */
  expires_at_ms?: number;
  stream: string;
}
/**
 * An entry that is delivered to a consumer.
 */
export interface Delivery {
  /**
   * Id of an entry.
   */
  id: string;
  fields: FieldMap;
  /**
   * Names of fields whose values are base64-encoded bytes.
   */
  base64?: string[];
  /**
   * All fields in order, if a name occurs more than once.
   */
  pairs?: string[][];
  /**
   * True if a name is not UTF-8. All names are then base64-encoded.
   */
  names_base64?: boolean;
  /**
   * Unix time before which groups do not deliver the entry.
   */
  deliver_at_ms?: number;
  /**
   * Unix time from which groups no longer deliver the entry.
   */
  expires_at_ms?: number;
  /**
   * Number of deliveries, including this one.
   */
  deliveries: number;
  /**
   * Idle time of the entry when it was claimed.
   */
  idle_ms: number;
  /**
   * Consumer that held the entry before it was claimed.
   */
  claimed_from?: string;
  /**
   * Error of the last nack that gave one.
   */
  last_error?: string;
}
/**
 * An entry of one of several streams that is delivered to a consumer.
 */
export interface StreamDelivery {
  /**
   * Id of an entry.
   */
  id: string;
  fields: FieldMap;
  /**
   * Names of fields whose values are base64-encoded bytes.
   */
  base64?: string[];
  /**
   * All fields in order, if a name occurs more than once.
   */
  pairs?: string[][];
  /**
   * True if a name is not UTF-8. All names are then base64-encoded.
   */
  names_base64?: boolean;
  /**
   * Unix time before which groups do not deliver the entry.
   */
  deliver_at_ms?: number;
  /**
   * Unix time from which groups no longer deliver the entry.
   */
  expires_at_ms?: number;
  /**
   * Number of deliveries, including this one.
   */
  deliveries: number;
  /**
   * Idle time of the entry when it was claimed.
   */
  idle_ms: number;
  /**
   * Consumer that held the entry before it was claimed.
   */
  claimed_from?: string;
  /**
   * Error of the last nack that gave one.
   */
  last_error?: string;
  stream: string;
}
/**
 * A gap in one of several streams.
 */
export interface StreamGap {
  stream: string;
  /**
   * Id of an entry.
   */
  from: string;
  /**
   * Id of an entry.
   */
  to: string;
}
/**
 * Rows of a table: first all rows, then, after `caught_up`, each change.
 */
export interface Rows {
  type: "rows";
  sub: string;
  rows: (Row | RowRemoval)[];
  credit_left: number;
  /**
   * All rows are sent again: discard the earlier ones.
   */
  again?: true;
  gap?: Gap;
  /**
   * With changes: subscribe again after this id.
   */
  position?: string;
}
/**
 * The latest entry of a key.
 */
export interface Row {
  /**
   * Id of an entry.
   */
  id: string;
  fields: FieldMap;
  /**
   * Names of fields whose values are base64-encoded bytes.
   */
  base64?: string[];
  /**
   * All fields in order, if a name occurs more than once.
   */
  pairs?: string[][];
  /**
   * True if a name is not UTF-8. All names are then base64-encoded.
   */
  names_base64?: boolean;
  /**
   * Unix time before which groups do not deliver the entry.
   */
  deliver_at_ms?: number;
  /**
   * Unix time from which groups no longer deliver the entry.
   */
  expires_at_ms?: number;
  /**
   * Value of the key field. It is written as `base64:` followed by base64 if it is empty, is not UTF-8, or starts with `base64:`.
   */
  key: string;
}
/**
 * A row that was removed by an entry with the `tombstone_field`.
 */
export interface RowRemoval {
  /**
   * Value of the key field. It is written as `base64:` followed by base64 if it is empty, is not UTF-8, or starts with `base64:`.
   */
  key: string;
  /**
   * Id of an entry.
   */
  id: string;
  fields: null;
}
/**
 * Whether entries can be sent now, and if not, why.
 */
export interface State {
  type: "state";
  sub: string;
  state: "live" | "caught_up" | "credit_exhausted" | "max_pending" | "key_blocked" | "paused" | "rate_limited";
}
/**
 * The stream is closed and was sent completely; for a group, all entries are settled.
 *
 * The subscription ends, and `unsubscribed` follows.
 */
export interface Closed {
  type: "closed";
  sub: string;
  /**
   * Last id of the stream.
   */
  at: string;
  /**
   * When the stream was closed.
   */
  closed_at_ms: number;
}
/**
 * Entries that you held were claimed by another consumer.
 */
export interface Claimed {
  type: "claimed";
  sub: string;
  ids: string[];
  by: string;
}
/**
 * Outcome of an ack, for each id.
 */
export interface Acked {
  type: "acked";
  rid?: string;
  sub: string;
  stream?: string;
  results: Settled[];
}
/**
 * Outcome for one id.
 */
export interface Settled {
  /**
   * Id of an entry.
   */
  id: string;
  outcome: Outcome;
}
/**
 * Outcome of a nack or extend, for each id.
 */
export interface Ok {
  type: "ok";
  rid?: string;
  sub: string;
  stream?: string;
  results: Settled[];
}
/**
 * The entries are appended and durable.
 */
export interface AppendedFrame {
  type: "appended";
  rid?: string | null;
  ids: string[];
}
/**
 * The steps of the commit are applied and durable.
 */
export interface CommittedFrame {
  type: "committed";
  rid?: string | null;
  /**
   * Result of each step, in order.
   */
  results: CommitResult[];
  /**
   * Nothing was changed: this is the result of the key's first use.
   */
  repeated?: true | null;
}
/**
 * Result of a step.
 */
export interface CommitResult {
  /**
   * Ids of the entries that the step appended.
   */
  ids?: string[];
}
/**
 * A subscription ended: on request, or because it is closed and read, or gone.
 */
export interface Unsubscribed {
  type: "unsubscribed";
  rid?: string | null;
  sub: string;
  reason: "requested" | "closed" | "gone" | "failed";
}
/**
 * The connection is about to end. Reconnect after this time.
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
 * The gateway accepted the credential.
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
 * The error of a frame, or why the connection ends.
 */
export interface ProblemFrame {
  type: "problem";
  rid?: string | null;
  sub?: string | null;
  problem: Problem;
}
/**
 * An error. The request changed nothing.
 */
export interface Problem {
  /**
   * Path of a page at this gateway that explains the problem and its remedy.
   */
  type: string;
  /**
   * Name of the HTTP status.
   */
  title: string;
  /**
   * HTTP status code.
   */
  status: number;
  /**
   * Explanation for people.
   */
  detail: string;
  /**
   * Path of the request.
   */
  instance: string;
  /**
   * Code for programs.
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
   * How long to wait before the next attempt, if known.
   */
  retry_after_ms?: number | null;
  /**
   * All faults of the request, each with its place.
   */
  errors?: ProblemError[] | null;
  /**
   * Last id of the stream, if the problem is about it.
   */
  last_id?: string | null;
  /**
   * Id of the entry that is too large for its reader, if the problem is about it.
   */
  entry_id?: string | null;
  /**
   * Number of the failed step of a commit, from 0.
   */
  step?: number | null;
  /**
   * With `not_leader`: address of the leader, if known.
   */
  leader?: string | null;
  /**
   * `X-Request-Id` of the answer or of the WebSocket, as in the log.
   */
  request_id?: string | null;
}
/**
 * One fault of a request.
 */
export interface ProblemError {
  /**
   * Where the fault is: a JSON pointer below `/body`, `/query`, `/path` or `/header`.
   */
  pointer: string;
  /**
   * What is wrong.
   */
  detail: string;
}
/**
 * The error of a commit, which changed nothing.
 */
export interface CommitProblemFrame {
  type: "problem";
  rid?: string | null;
  sub?: string | null;
  problem: FenceProblem | RowProblem | Problem;
}
/**
 * Error of a commit: entries are not pending with its consumer. The commit changed nothing.
 */
export interface FenceProblem {
  /**
   * Path of a page at this gateway that explains the problem and its remedy.
   */
  type: string;
  /**
   * Name of the HTTP status.
   */
  title: string;
  /**
   * HTTP status code.
   */
  status: number;
  /**
   * Explanation for people.
   */
  detail: string;
  /**
   * Path of the request.
   */
  instance: string;
  /**
   * Code for programs.
   */
  code: "not_yours";
  /**
   * Whether the same request may succeed later.
   */
  retryable: boolean;
  /**
   * How long to wait before the next attempt, if known.
   */
  retry_after_ms?: number | null;
  /**
   * All faults of the request, each with its place.
   */
  errors?: ProblemError[] | null;
  /**
   * Last id of the stream, if the problem is about it.
   */
  last_id?: string | null;
  /**
   * Id of the entry that is too large for its reader, if the problem is about it.
   */
  entry_id?: string | null;
  /**
   * Number of the failed step of a commit, from 0.
   */
  step?: number | null;
  /**
   * With `not_leader`: address of the leader, if known.
   */
  leader?: string | null;
  /**
   * `X-Request-Id` of the answer or of the WebSocket, as in the log.
   */
  request_id?: string | null;
  /**
   * The entries, and who holds them.
   */
  held: HeldEntry[];
}
/**
 * An entry that is not pending with the consumer of a commit.
 */
export interface HeldEntry {
  /**
   * Id of the entry.
   */
  id: string;
  /**
   * Consumer that holds the entry; absent if none does.
   */
  consumer?: string | null;
  /**
   * Delivery count of the entry; absent if it is not pending or already settled.
   */
  deliveries?: number | null;
}
/**
 * Error of a change of a row: the row is not in the state that the request expects.
 */
export interface RowProblem {
  /**
   * Path of a page at this gateway that explains the problem and its remedy.
   */
  type: string;
  /**
   * Name of the HTTP status.
   */
  title: string;
  /**
   * HTTP status code.
   */
  status: number;
  /**
   * Explanation for people.
   */
  detail: string;
  /**
   * Path of the request.
   */
  instance: string;
  /**
   * Code for programs.
   */
  code: "row_changed";
  /**
   * Whether the same request may succeed later.
   */
  retryable: boolean;
  /**
   * How long to wait before the next attempt, if known.
   */
  retry_after_ms?: number | null;
  /**
   * All faults of the request, each with its place.
   */
  errors?: ProblemError[] | null;
  /**
   * Last id of the stream, if the problem is about it.
   */
  last_id?: string | null;
  /**
   * Id of the entry that is too large for its reader, if the problem is about it.
   */
  entry_id?: string | null;
  /**
   * Number of the failed step of a commit, from 0.
   */
  step?: number | null;
  /**
   * With `not_leader`: address of the leader, if known.
   */
  leader?: string | null;
  /**
   * `X-Request-Id` of the answer or of the WebSocket, as in the log.
   */
  request_id?: string | null;
  /**
   * The current row, if it exists.
   */
  row?: {
    [k: string]: unknown;
  } | null;
}
