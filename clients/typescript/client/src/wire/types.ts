// Made by `npm run types` of openapi/openapi.json; not to be edited.

/**
 * The outcome of an ack, nack or extend for one id.
 */
export type Outcome = "acked" | "released" | "extended" | "not_pending" | "claimed";
export type Retained = "all" | "latest";
export type OnDisconnect = "release" | "keep";
export type OnExpiry = "settle" | "dead_letter";
/**
 * The outcome of a delete for one id.
 */
export type Deletion = "deleted" | "not_found" | "referenced";

export interface Types {
  Entry: Entry;
  Delivery: Delivery;
  EntryInput: EntryInput;
  Entries: Entries;
  GroupEntries: GroupEntries;
  Appended: Appended;
  AppendedBatch: AppendedBatch;
  ClosedStream: ClosedStream;
  Settled: Settled;
  SettledEntries: SettledEntries;
  StreamInfo: StreamInfo;
  StreamDetail: StreamDetail;
  StreamConfig: StreamConfig;
  Streams: Streams;
  Trim: Trim;
  Deletion: Deletion;
  Deletions: Deletions;
  GroupInfo: GroupInfo;
  Groups: Groups;
  GroupInput: GroupInput;
  GroupPatch: GroupPatch;
  Policy: Policy;
  Consumers: Consumers;
  GroupConsumer: GroupConsumer;
  GroupKey: GroupKey;
  GroupKeys: GroupKeys;
  NoisyKey: NoisyKey;
  ReadGroup: ReadGroup;
  Nack: Nack;
  Claim: Claim;
  Claimed: Claimed;
  Autoclaim: Autoclaim;
  Autoclaimed: Autoclaimed;
  PendingEntry: PendingEntry;
  PendingSummary: PendingSummary;
  Redrive: Redrive;
  Redriven: Redriven;
  RedrivenEntries: RedrivenEntries;
  PendingEntries: PendingEntries;
  Trimmed: Trimmed;
  DeletedEntries: DeletedEntries;
  DeletedConsumer: DeletedConsumer;
  Ticket: Ticket;
  TicketRequest: TicketRequest;
  Gap: Gap;
  ScheduleInfo: ScheduleInfo;
  Schedules: Schedules;
  PushInfo: PushInfo;
  PushInput: PushInput;
  PatternPushInput: PatternPushInput;
  PushSummary: PushSummary;
  PushAttempt: PushAttempt;
  PushAttempts: PushAttempts;
  PushReplay: PushReplay;
  PushReplayInput: PushReplayInput;
  Pushes: Pushes;
  ReadGroups: ReadGroups;
  GroupsEntries: GroupsEntries;
  StreamDelivery: StreamDelivery;
  MissingGroups: MissingGroups;
  StreamIds: StreamIds;
  SettledStream: SettledStream;
  SettledStreams: SettledStreams;
  RetriedPush: RetriedPush;
  CommitStep: CommitStep;
  CommitDone: CommitDone;
  PresentMembers: PresentMembers;
  PresentMember: PresentMember;
  PresentConnection: PresentConnection;
  Row: Row;
  TableRows: TableRows;
  RowWritten: RowWritten;
  ProblemDetails: ProblemDetails;
  RowProblemDetails: RowProblemDetails;
  FenceProblemDetails: FenceProblemDetails;
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
  namesBase64?: boolean;
  /**
   * Unix time before which groups do not deliver the entry.
   */
  deliverAtMs?: number;
  /**
   * Unix time from which groups no longer deliver the entry.
   */
  expiresAtMs?: number;
}
/**
 * Fields of the entry.
 */
export interface FieldMap {
  [k: string]: string;
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
  namesBase64?: boolean;
  /**
   * Unix time before which groups do not deliver the entry.
   */
  deliverAtMs?: number;
  /**
   * Unix time from which groups no longer deliver the entry.
   */
  expiresAtMs?: number;
  /**
   * Number of deliveries, including this one.
   */
  deliveries: number;
  /**
   * Idle time of the entry when it was claimed.
   */
  idleMs: number;
  /**
   * Consumer that held the entry before it was claimed.
   */
  claimedFrom?: string;
  /**
   * Error of the last nack that gave one.
   */
  lastError?: string;
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
  namesBase64?: boolean;
  /**
   * Time until groups deliver the entry; up to 90 days.
   */
  delayMs?: number | null;
  /**
   * Instead of `delay_ms`: unix time before which groups do not deliver the entry.
   */
  deliverAtMs?: number | null;
  /**
   * Time from now after which groups no longer deliver the entry.
   */
  ttlMs?: number | null;
  /**
   * Instead of `ttl_ms`: unix time after which groups no longer deliver the entry.
   */
  expiresAtMs?: number | null;
  /**
   * `*` to generate an id, `ms-*` to generate the sequence, or an explicit id above the last one.
   */
  id?: string;
}
/**
 * Entries of one stream.
 */
export interface Entries {
  entries: Entry[];
  /**
   * Cursor for the next ascending read. With a filter, it is after the last entry that was examined; null: the whole range was examined.
   */
  nextAfter: string | null;
  /**
   * Cursor for the next descending read: pass `end=(` followed by this id.
   */
  nextBefore?: string | null;
  /**
   * Last id of the stream.
   */
  lastId: string;
  /**
   * Trimmed entries between the cursor and the oldest entry.
   */
  gap: Gap | null;
  /**
   * True if the first entries come from the archive, because they were trimmed from the stream.
   */
  archived?: boolean;
  /**
   * After a cursor: when the stream was closed, if no entries follow `next_after`.
   */
  closedAtMs?: number | null;
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
 * Entries delivered to a consumer.
 */
export interface GroupEntries {
  entries: Delivery[];
  /**
   * Ids of own pending entries that no longer exist in the stream; acknowledge them.
   */
  deletedIds?: string[];
  /**
   * Number of entries that the group has yet to deliver, if known.
   */
  lag: number | null;
  /**
   * Number of entries that this consumer holds.
   */
  pending: number;
  /**
   * Whether more entries are available, and if not, why.
   */
  state: "live" | "caught_up" | "max_pending" | "key_blocked" | "paused" | "rate_limited" | "closed";
}
/**
 * The result of an append.
 */
export interface Appended {
  /**
   * Id of the entry; for a batch of events, id of the last entry.
   */
  id: string;
  /**
   * For a batch of events: ids of the entries, in order.
   */
  ids?: string[];
}
/**
 * The result of a batch of appends.
 */
export interface AppendedBatch {
  count: number;
  /**
   * Id of an entry.
   */
  firstId: string;
  /**
   * Id of an entry.
   */
  lastId: string;
  /**
   * Ids of the entries, in order.
   */
  ids: string[];
}
/**
 * A closed stream.
 */
export interface ClosedStream {
  /**
   * Ids of the last append; empty if there was none.
   */
  ids: string[];
  /**
   * Identifies the stream. A stream that is deleted and created again has another epoch.
   */
  epoch: number;
  /**
   * When the stream was closed.
   */
  closedAtMs: number;
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
 * Outcome for each id, in order.
 */
export interface SettledEntries {
  results: Settled[];
}
/**
 * A stream.
 */
export interface StreamInfo {
  name: string;
  /**
   * Identifies the stream. A stream that is deleted and created again has a greater epoch.
   */
  epoch: number;
  /**
   * Number of entries.
   */
  length: number;
  /**
   * Id of the oldest entry; null if the stream is empty.
   */
  firstId: string | null;
  /**
   * Last id that was ever generated.
   */
  lastId: string;
  /**
   * Greatest id that was ever deleted, not counting trims.
   */
  maxDeletedId: string;
  /**
   * Number of entries ever added.
   */
  entriesAdded: number;
  /**
   * Number of groups.
   */
  groups: number;
  /**
   * Number of chunks that hold the entries.
   */
  chunks: number;
  /**
   * Approximate memory of the entries; null over Redis or Valkey.
   */
  hotBytes: number | null;
  /**
   * Approximate size of entries that are only on disk; null over Redis or Valkey.
   */
  coldBytes: number | null;
  /**
   * When the stream was closed; null if it is open.
   */
  closedAtMs: number | null;
  /**
   * Number of trimmed entries that stay readable in the archive.
   */
  archivedCount: number;
  /**
   * Id of the oldest archived entry; null if there is none.
   */
  archivedFirstId: string | null;
  table?: TableState;
  config: StreamConfig;
}
/**
 * Only if the stream has a `key_field`.
 */
export interface TableState {
  /**
   * Approximate number of rows.
   */
  rows: number;
  /**
   * Entries up to this id are indexed.
   */
  indexedThrough: string;
  /**
   * False while the table is being built. Reads may then answer `unavailable`.
   */
  isComplete: boolean;
}
/**
 * Configuration of a stream: retention, idempotency keys and table. Null is the default.
 */
export interface StreamConfig {
  /**
   * Keep this many of the newest entries.
   */
  maxLength?: number | null;
  /**
   * Maximum age of entries, by the time in their ids.
   */
  maxAgeMs?: number | null;
  /**
   * How long an idempotency key is remembered. Default: 100 s.
   */
  idempotencyWindowMs?: number | null;
  /**
   * Number of idempotency keys remembered per producer, the newest ones. Default: 100.
   */
  idempotencyMax?: number | null;
  /**
   * Archive the entries that retention and trims remove. They stay readable over REST.
   */
  archive?: boolean | null;
  /**
   * Bytes of the newest entries that stay on the disk, if there is room, when older entries move to the bucket.
   */
  localBytes?: number | null;
  /**
   * Makes the stream a table: the latest entry of each value of this field is a row. Entries whose value has more than 1,024 bytes are in no row.
   */
  keyField?: string | null;
  /**
   * Field that marks a removal: an entry with this field removes the row of its key. Default: `deleted`.
   */
  tombstoneField?: string | null;
  /**
   * `latest` compacts the stream of a table. It removes an entry in the background once a later entry with the same key supersedes it and no group still has to read or settle it.
   */
  retain?: Retained | null;
  /**
   * With `retain: latest`, the minimum age of entries to remove. Default: 1 hour.
   */
  compactAfterMs?: number | null;
  /**
   * With `retain: latest`, also remove entries that groups have not read yet.
   */
  compactUnread?: boolean | null;
  /**
   * With `retain: latest`, remove only entries with ids below this unix time. Later entries are not archived yet. `headgate-pipeline trim --superseded` sets it.
   */
  archivedUntilMs?: number | null;
  /**
   * With `retain: latest`, the age after which an entry that removed a row is removed itself. Default: 1 day.
   */
  tombstoneMs?: number | null;
}
/**
 * A stream. With `full`, also its entries and groups.
 */
export interface StreamDetail {
  name: string;
  /**
   * Identifies the stream. A stream that is deleted and created again has a greater epoch.
   */
  epoch: number;
  /**
   * Number of entries.
   */
  length: number;
  /**
   * Id of the oldest entry; null if the stream is empty.
   */
  firstId: string | null;
  /**
   * Last id that was ever generated.
   */
  lastId: string;
  /**
   * Greatest id that was ever deleted, not counting trims.
   */
  maxDeletedId: string;
  /**
   * Number of entries ever added.
   */
  entriesAdded: number;
  /**
   * Number of groups.
   */
  groups: number;
  /**
   * Number of chunks that hold the entries.
   */
  chunks: number;
  /**
   * Approximate memory of the entries; null over Redis or Valkey.
   */
  hotBytes: number | null;
  /**
   * Approximate size of entries that are only on disk; null over Redis or Valkey.
   */
  coldBytes: number | null;
  /**
   * When the stream was closed; null if it is open.
   */
  closedAtMs: number | null;
  /**
   * Number of trimmed entries that stay readable in the archive.
   */
  archivedCount: number;
  /**
   * Id of the oldest archived entry; null if there is none.
   */
  archivedFirstId: string | null;
  table?: TableState1;
  config: StreamConfig;
  firstEntry: Entry | null;
  lastEntry: Entry | null;
  /**
   * With `full`: the oldest entries.
   */
  entries?: Entry[];
  /**
   * With `full`: groups, consumers and pending entries.
   */
  groupDetails?: GroupDetail[];
  /**
   * With `full`: number of groups that are not listed.
   */
  groupsLeftOut?: number;
}
/**
 * Only if the stream has a `key_field`.
 */
export interface TableState1 {
  /**
   * Approximate number of rows.
   */
  rows: number;
  /**
   * Entries up to this id are indexed.
   */
  indexedThrough: string;
  /**
   * False while the table is being built. Reads may then answer `unavailable`.
   */
  isComplete: boolean;
}
/**
 * A group with its pending entries and its consumers.
 */
export interface GroupDetail {
  /**
   * `critical`: entries wait and no consumer receives them, or the push is disabled. `warning`: the group is paused or behind by a minute or more, or its push fails. `ok`: none of these. Dead letters do not count.
   */
  verdict: "ok" | "warning" | "critical";
  /**
   * The reasons for the verdict, the worst first.
   */
  reasons: VerdictReason[];
  name: string;
  /**
   * Id of the last delivered entry. The group continues after it.
   */
  lastId: string;
  /**
   * Number of all entries added up to this position, if known.
   */
  entriesRead: number | null;
  /**
   * Number of entries that the group has yet to deliver, if known.
   */
  lag: number | null;
  /**
   * Number of entries delivered but not acknowledged.
   */
  pending: number;
  /**
   * Number of pending entries without a consumer. The next reader gets them.
   */
  released: number;
  /**
   * Approximate number of pending entries that wait for a delay.
   */
  delayed: number;
  consumers: number;
  policy: Policy;
  noisyKey?: NoisyKey;
  pendingEntries: PendingEntry[];
  consumerDetails: GroupConsumer[];
  /**
   * Number of consumers that are not listed.
   */
  consumersLeftOut: number;
}
/**
 * A reason why a group needs attention.
 */
export interface VerdictReason {
  code:
    | "no_consumer"
    | "stalled"
    | "paused"
    | "behind"
    | "push_failing"
    | "push_paused"
    | "push_disabled"
    | "push_unreadable";
  severity: "ok" | "warning" | "critical";
  /**
   * Entries that wait.
   */
  entries: number;
  /**
   * The reason in words.
   */
  text: string;
}
/**
 * Rules that a group applies automatically. All parts are optional and may be null.
 */
export interface Policy {
  /**
   * Default `claim_idle_ms` of reads: they take over entries that have been idle for this long.
   */
  claimIdleMs?: number | null;
  /**
   * Number of deliveries after which an entry that fails is moved to `dead_letter_stream`.
   */
  maxDeliveries?: number | null;
  /**
   * Stream for dead letters. Each has the fields of its entry, followed by `_stream`, `_id`, `_group`, `_deliveries` and `_reason`, and by `_error` if a nack gave an error.
   */
  deadLetterStream?: string | null;
  /**
   * Delays before the 2nd, 3rd, … delivery of a failed entry.
   */
  backoffMs?: number[] | null;
  /**
   * Maximum number of unacknowledged entries per consumer.
   */
  maxPending?: number | null;
  /**
   * What to do with a connection's unacknowledged entries when it ends for good.
   */
  onDisconnect?: OnDisconnect | null;
  /**
   * Idle time after which a consumer without pending entries is removed.
   */
  consumerTtlMs?: number | null;
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
  pausedUntilMs?: number | null;
  /**
   * Maximum number of entries that the group delivers per second.
   */
  ratePerS?: number | null;
  /**
   * Maximum number of entries in a burst after a quiet time. Default: `rate_per_s`.
   */
  rateBurst?: number | null;
  /**
   * Deliver entries with the same value of this field in order: the next entry follows when the previous one is acknowledged or a dead letter.
   */
  keyField?: string | null;
  /**
   * Maximum number of pending entries per value of `key_field`. Default: 1.
   */
  keyPendingMax?: number | null;
  /**
   * Maximum number of entries held back until earlier entries with their value are settled. Default: 10,000; at most 100,000. At the limit, the group stops reading. With `fair_field`, number of entries indexed ahead. Default: 10,000,000. Further entries wait in order.
   */
  keyAheadMax?: number | null;
  /**
   * What to do with entries whose deadline has passed; `dead_letter` needs a `dead_letter_stream`.
   */
  onExpiry?: OnExpiry | null;
  /**
   * Values of this field take turns: however many entries one value has, the other values get their turns. Entries without the field share one turn.
   */
  fairField?: string | null;
  /**
   * Number of entries per turn, by value. Default: 1.
   */
  weights?: {
    [k: string]: number;
  } | null;
  /**
   * Field with a priority from 0 to 9. Entries with a higher priority are delivered first. Default: 0.
   */
  priorityField?: string | null;
  /**
   * Waiting time after which an entry rises by one priority.
   */
  priorityAgeMs?: number | null;
}
/**
 * The key of a fair group that has more than half of the waiting entries.
 */
export interface NoisyKey {
  key: string | null;
  waiting: number;
}
/**
 * An entry that was delivered but not acknowledged.
 */
export interface PendingEntry {
  /**
   * Id of an entry.
   */
  id: string;
  /**
   * Consumer that holds the entry; null if it was released.
   */
  consumer: string | null;
  /**
   * Time since the last delivery; null if no consumer holds the entry.
   */
  idleMs: number | null;
  deliveries: number;
  /**
   * Time until the entry can be delivered again.
   */
  delayMs?: number;
  /**
   * Error of the last nack that gave one.
   */
  lastError?: string;
  /**
   * Entry with the same key that must be settled first.
   */
  waitsFor?: string;
}
/**
 * A consumer of a group.
 */
export interface GroupConsumer {
  name: string;
  /**
   * Number of entries that the consumer holds.
   */
  pending: number;
  /**
   * Time since its last attempt to read or claim.
   */
  idleMs: number;
  /**
   * Time since it last received entries; null: never.
   */
  inactiveMs: number | null;
}
/**
 * A page of streams, sorted by name.
 */
export interface Streams {
  streams: StreamInfo[];
  /**
   * Pass it as `cursor` to get the next page; null: this is the last page.
   */
  nextCursor: string | null;
}
/**
 * Which entries a trim keeps: give `max_length` or `min_id`.
 */
export interface Trim {
  /**
   * Keep this many of the newest entries.
   */
  maxLength?: number | null;
  /**
   * Keep entries with this id or a greater one.
   */
  minId?: string | null;
  /**
   * Trim faster, and keep slightly more entries.
   */
  approximate?: boolean;
  /**
   * With `approximate`: maximum number of entries to remove; 0: no limit.
   */
  limit?: number | null;
  /**
   * What to do with entries that are pending in a group. `keep` removes the entry but leaves it pending. `delete` also ends its pending state. `acked` removes only entries that all groups have read and acknowledged.
   */
  references?: "keep" | "delete" | "acked";
}
/**
 * Entries to delete, and what to do where they are pending.
 */
export interface Deletions {
  /**
   * @minItems 1
   */
  ids: string[];
  /**
   * What to do with entries that are pending in a group. `keep` removes the entry but leaves it pending. `delete` also ends its pending state. `acked` removes only entries that all groups have read and acknowledged.
   */
  references?: "keep" | "delete" | "acked";
}
/**
 * A consumer group.
 */
export interface GroupInfo {
  /**
   * `critical`: entries wait and no consumer receives them, or the push is disabled. `warning`: the group is paused or behind by a minute or more, or its push fails. `ok`: none of these. Dead letters do not count.
   */
  verdict: "ok" | "warning" | "critical";
  /**
   * The reasons for the verdict, the worst first.
   */
  reasons: VerdictReason[];
  name: string;
  /**
   * Id of the last delivered entry. The group continues after it.
   */
  lastId: string;
  /**
   * Number of all entries added up to this position, if known.
   */
  entriesRead: number | null;
  /**
   * Number of entries that the group has yet to deliver, if known.
   */
  lag: number | null;
  /**
   * Number of entries delivered but not acknowledged.
   */
  pending: number;
  /**
   * Number of pending entries without a consumer. The next reader gets them.
   */
  released: number;
  /**
   * Approximate number of pending entries that wait for a delay.
   */
  delayed: number;
  consumers: number;
  policy: Policy;
  noisyKey?: NoisyKey;
}
/**
 * A page of the groups of a stream, sorted by name.
 */
export interface Groups {
  groups: GroupInfo[];
  /**
   * Pass it as `cursor` to get the next page; null: this is the last page.
   */
  nextCursor: string | null;
}
/**
 * A group to create.
 */
export interface GroupInput {
  /**
   * Read entries after this id; `$` is the last id, `0` reads all entries.
   */
  start?: string;
  /**
   * Create the stream if it does not exist.
   */
  createStream?: boolean;
  /**
   * Number of entries before `start`, if known. `lag` is computed from it.
   */
  entriesRead?: number | null;
  policy?: Policy | null;
}
/**
 * A change of a group; give at least one part.
 */
export interface GroupPatch {
  start?: string | null;
  /**
   * Number of entries before `start`. It becomes unknown if only `start` is given.
   */
  entriesRead?: number | null;
  /**
   * The parts to change. Null removes a part.
   */
  policy?: Policy | null;
}
/**
 * A page of the consumers of a group, sorted by name.
 */
export interface Consumers {
  consumers: GroupConsumer[];
  /**
   * Pass it as `cursor` to get the next page; null: this is the last page.
   */
  nextCursor: string | null;
}
/**
 * A key of a fair group: a value of its `fair_field`.
 */
export interface GroupKey {
  /**
   * The value; null stands for all entries without the field.
   */
  key: string | null;
  /**
   * Number of entries that are not delivered yet.
   */
  waiting: number;
  /**
   * Number of entries that consumers hold.
   */
  pending: number;
  /**
   * Id of the first waiting entry.
   */
  oldestId: string | null;
  /**
   * Age of the first waiting entry, by its id.
   */
  oldestAgeMs: number | null;
  /**
   * Share of the deliveries of the last minute, from 0 to 1.
   */
  share: number;
  /**
   * Whether the key has reached `key_pending_max` pending entries.
   */
  isResting: boolean;
}
/**
 * Keys of a fair group.
 */
export interface GroupKeys {
  keys: GroupKey[];
  /**
   * Number of keys with waiting entries.
   */
  keyCount: number;
  /**
   * Number of waiting entries of all keys.
   */
  waiting: number;
  /**
   * False if more entries wait behind these. They are indexed in order as room becomes available (`key_ahead_max`).
   */
  isComplete: boolean;
}
/**
 * A read as a consumer of a group; all parts are optional.
 */
export interface ReadGroup {
  /**
   * Maximum number of entries.
   */
  limit?: number;
  /**
   * How long to wait if there are no entries.
   */
  waitMs?: number;
  /**
   * First claim entries that are pending with any consumer and have been idle for this long.
   */
  claimIdleMs?: number | null;
  /**
   * `>`: entries new to the group. `0` or an id: pending entries of the consumer itself.
   */
  from?: string;
  /**
   * Deliver new entries without requiring acknowledgement.
   */
  noAck?: boolean;
  /**
   * Acknowledge these entries first.
   */
  ack?: string[];
}
/**
 * Entries to give back.
 */
export interface Nack {
  /**
   * @minItems 1
   */
  ids: string[];
  /**
   * `silent`: the entry was not tried; the delivery does not count. `fail`: it was tried and failed. `fatal`: it can never succeed; its delivery count becomes the maximum.
   */
  mode?: "silent" | "fail" | "fatal";
  /**
   * Delay before the next delivery. Default: the `backoff_ms` of the group.
   */
  delayMs?: number | null;
  /**
   * Error of the consumer. The next delivery has it as `last_error`, a dead letter as `_error`.
   */
  error?: string | null;
}
/**
 * Pending entries to claim.
 */
export interface Claim {
  /**
   * @minItems 1
   */
  ids: string[];
  /**
   * Skip entries that have been idle for less than this.
   */
  minIdleMs: number;
  /**
   * Set the idle time of the entries to this.
   */
  idleMs?: number | null;
  /**
   * Set the delivery time of the entries to this.
   */
  timeMs?: number | null;
  /**
   * Set the delivery count of the entries to this.
   */
  retryCount?: number | null;
  /**
   * Also claim existing entries that are not pending.
   */
  force?: boolean;
  /**
   * Return only ids, and do not count a delivery.
   */
  justId?: boolean;
}
/**
 * The claimed entries.
 */
export interface Claimed {
  ids: string[];
  /**
   * The entries, unless `just_id` is true.
   */
  entries?: Delivery[];
  /**
   * Ids that were pending but no longer exist in the stream. They are no longer pending.
   */
  deletedIds: string[];
}
/**
 * Idle entries to claim, in the order of their ids.
 */
export interface Autoclaim {
  /**
   * Skip entries that have been idle for less than this.
   */
  minIdleMs: number;
  /**
   * Id at which to start: `next` of the previous page.
   */
  start?: string;
  /**
   * Maximum number of entries.
   */
  limit?: number;
  /**
   * Return only ids, and do not count a delivery.
   */
  justId?: boolean;
}
/**
 * A page of claimed entries.
 */
export interface Autoclaimed {
  ids: string[];
  /**
   * The entries, unless `just_id` is true.
   */
  entries?: Delivery[];
  /**
   * Ids that were pending but no longer exist in the stream. They are no longer pending.
   */
  deletedIds: string[];
  /**
   * Pass it as `start` to get the next page; `0-0`: the scan is complete.
   */
  next: string;
}
/**
 * Summary of the pending entries of a group.
 */
export interface PendingSummary {
  count: number;
  minId: string | null;
  maxId: string | null;
  /**
   * Consumers that hold entries, by name.
   */
  consumers: ConsumerPending[];
  /**
   * Number of other consumers that hold entries.
   */
  consumersLeftOut: number;
}
/**
 * Number of pending entries of a consumer.
 */
export interface ConsumerPending {
  name: string;
  pending: number;
}
/**
 * Dead letters to send back; all parts are optional.
 */
export interface Redrive {
  /**
   * Ids in the dead letter stream. Default: the oldest dead letters.
   */
  ids?: string[] | null;
  /**
   * Maximum number of dead letters.
   */
  limit?: number;
}
/**
 * A dead letter that was sent back.
 */
export interface Redriven {
  /**
   * Former id in the dead letter stream.
   */
  id: string;
  /**
   * `released`: the next reader of the group gets the entry. `appended`: the entry no longer existed in its stream, so it was appended there as a new entry for all groups.
   */
  outcome: "released" | "appended";
  /**
   * Id in the original stream.
   */
  entryId: string;
}
/**
 * Outcome for each dead letter.
 */
export interface RedrivenEntries {
  results: Redriven[];
}
/**
 * Pending entries, in the order of their ids.
 */
export interface PendingEntries {
  pending: PendingEntry[];
}
/**
 * The result of a trim.
 */
export interface Trimmed {
  removed: number;
}
/**
 * Outcome for each id, in order.
 */
export interface DeletedEntries {
  results: Deleted[];
}
/**
 * Outcome for one id.
 */
export interface Deleted {
  /**
   * Id of an entry.
   */
  id: string;
  outcome: Deletion;
}
/**
 * Pending entries of a deleted consumer.
 */
export interface DeletedConsumer {
  /**
   * Number of entries that were released or dropped.
   */
  pending: number;
}
/**
 * A ticket for a page.
 */
export interface Ticket {
  /**
   * A token. Send it as `Bearer`, in the frame `auth`, or as `?ticket=` in the URL of an event stream or WebSocket.
   */
  ticket: string;
  /**
   * When the ticket expires; no later than your own credential.
   */
  expiresAtMs: number;
}
/**
 * Rights of a new ticket.
 */
export interface TicketRequest {
  /**
   * Stream that the ticket gives access to.
   */
  stream?: string | null;
  /**
   * Channel that the ticket gives access to.
   */
  channel?: string | null;
  /**
   * With `consume`: name of the group.
   */
  group?: string | null;
  /**
   * With `consume`: restricts the ticket to this consumer.
   */
  consumer?: string | null;
  /**
   * Verbs that the ticket allows: `read`, `append` and `consume` on the stream, `publish` and `subscribe` on the channel. You must have these rights yourself.
   *
   * @minItems 1
   * @maxItems 5
   */
  do: ("read" | "append" | "consume" | "publish" | "subscribe")[];
  /**
   * User of the page, shown in `presence`. Default: your own name.
   */
  user?: string | null;
  /**
   * Lifetime of the ticket. It can be used for any number of connections.
   */
  ttlMs?: number;
}
/**
 * A schedule and its progress.
 */
export interface ScheduleInfo {
  name: string;
  /**
   * Stream to append to.
   */
  stream: string;
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
  namesBase64?: boolean;
  /**
   * Cron expression in the syntax of Debian's cron: minute, hour, day of month, month, day of week.
   */
  cron: string;
  /**
   * IANA name of the time zone.
   */
  timeZone: string;
  /**
   * What to do about due times that the gateway missed by more than a minute: append once, late, for the latest of them, or skip them.
   */
  missed: "run_once" | "skip";
  /**
   * If true, nothing is due until the schedule is resumed.
   */
  paused: boolean;
  /**
   * Next due time; null if the schedule is paused or has no more due times.
   */
  nextDueMs: number | null;
  /**
   * Due time of the last entry; null if there is none yet.
   */
  lastDueMs: number | null;
  /**
   * Id of the last entry.
   */
  lastId: string | null;
  /**
   * Due times that were missed, without an entry.
   */
  missedCount: number;
  /**
   * Appends that were refused.
   */
  refusedCount: number;
  /**
   * Why the last append was refused; null if it was not.
   */
  problem: ScheduleRefusal | null;
}
/**
 * The last refused append of a schedule.
 */
export interface ScheduleRefusal {
  /**
   * Code for programs.
   */
  code: string;
  /**
   * Explanation for people.
   */
  detail: string;
  atMs: number;
}
/**
 * A page of schedules, by name.
 */
export interface Schedules {
  schedules: ScheduleInfo[];
  /**
   * Pass it as `cursor` to get the next page; null: this is the last page.
   */
  nextCursor: string | null;
}
/**
 * A push, with the latest answers of its receiver.
 */
export interface PushInfo {
  /**
   * Stream of the push. With `match`: its pattern.
   */
  stream: string;
  /**
   * Pattern, for a push over a pattern.
   */
  match?: string;
  /**
   * For a push over a pattern.
   */
  weights?: {
    [k: string]: number;
  };
  /**
   * For a push over a pattern.
   */
  create?: MissingGroups | null;
  group: string;
  /**
   * Null if the key that encrypted the secrets is missing.
   */
  url: string | null;
  /**
   * Maximum number of concurrent requests.
   */
  concurrency: number;
  /**
   * Timeout of a request, including its answer.
   */
  timeoutMs: number;
  /**
   * `entry`: one entry, in the form of a read of the group. `batch`: up to `batch_max` entries. `cloudevents`, `cloudevents_binary`, `cloudevents_batch`: CloudEvents.
   */
  body: "entry" | "batch" | "cloudevents" | "cloudevents_binary" | "cloudevents_batch";
  /**
   * Maximum number of entries per batch.
   */
  batchMax: number;
  /**
   * Signature as of Standard Webhooks. `v1`: HMAC-SHA256 with the secret. `v1a`: Ed25519 with the key of the gateway; the public key is at `/v1/push/jwks.json`.
   */
  signature: "v1" | "v1a";
  /**
   * Time without a success after which a failing push is disabled.
   */
  disableAfterMs: number;
  /**
   * How many days the gateway keeps the attempts of the push, at most the latest 10,000. 0: it keeps none.
   */
  attemptsDays: number;
  /**
   * Names of `headers`. Their values are never shown.
   */
  headerNames: string[];
  /**
   * `active`. `failing`: all requests fail, so the gateway only sends one request from time to time. `paused`. `disabled`: the push sends nothing until it is resumed. `unreadable`: the key that encrypted its secrets is missing; set the push again.
   */
  state: "active" | "failing" | "paused" | "disabled" | "unreadable";
  failingSinceMs: number | null;
  /**
   * Consecutive failed requests.
   */
  failureCount: number;
  disabledAtMs: number | null;
  disabledReason: string | null;
  /**
   * Public key of the gateway, with `v1a`; null otherwise.
   */
  publicKey: string | null;
  /**
   * Until when the previous secret is also used.
   */
  previousSecretUntilMs: number | null;
  createdAtMs: number;
  /**
   * Entries that the receiver has acknowledged.
   */
  deliveredCount: number;
  /**
   * Requests that failed.
   */
  failedCount: number;
  /**
   * The latest replay.
   */
  replay: PushReplay | null;
  /**
   * The secret. It is shown only once, when it is new.
   */
  secret?: string;
  /**
   * The last 50 attempts, newest first.
   */
  answers: PushAttempt[];
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
 * A replay: entries of a range that a push sends again.
 */
export interface PushReplay {
  /**
   * Value of `headgate-replay` in its requests.
   */
  id: string;
  /**
   * `counted`: a dry run. `running`, also while the push is paused. `done`. `cancelled`.
   */
  state: "counted" | "running" | "done" | "cancelled";
  start: string;
  /**
   * At most the last id that the group has read.
   */
  end: string;
  /**
   * Number of entries when they were counted.
   */
  entries: number;
  /**
   * There may be more entries than were counted.
   */
  atLeast: boolean;
  /**
   * Entries that the receiver has acknowledged.
   */
  sent: number;
  /**
   * Entries that failed in all attempts.
   */
  failed: number;
  createdAtMs: number;
  endedAtMs: number | null;
}
/**
 * A request of a push and its result.
 */
export interface PushAttempt {
  atMs: number;
  tookMs: number;
  webhookId: string;
  entryCount: number;
  /**
   * HTTP status of the answer; null if there was no answer.
   */
  status: number | null;
  /**
   * Why the attempt failed; null if it succeeded.
   */
  error: string | null;
  /**
   * Beginning of the answer; null if it was empty.
   */
  excerpt: string | null;
  /**
   * How long the receiver asked the gateway to wait (429 and 503).
   */
  retryAfterS: number | null;
  /**
   * Stream of the entries.
   */
  stream: string;
  /**
   * Ids of the entries in the request.
   */
  ids: string[];
  /**
   * Scheme and host of the URL. Its path and query can be secrets, so they are not kept.
   */
  url: string;
  /**
   * Headers of the request. The signature and the headers of the push have `…` as their values.
   */
  headers: {
    [k: string]: string;
  };
  /**
   * When the entries are due again; null if this was the last attempt.
   */
  nextAtMs: number | null;
}
/**
 * Settings of a push.
 */
export interface PushInput {
  /**
   * Where to send requests: an https URL with a public address, unless the operator allows others. It is stored as a secret.
   */
  url: string;
  /**
   * Maximum number of concurrent requests.
   */
  concurrency?: number;
  /**
   * Timeout of a request, including its answer.
   */
  timeoutMs?: number;
  /**
   * `entry`: one entry, in the form of a read of the group. `batch`: up to `batch_max` entries. `cloudevents`, `cloudevents_binary`, `cloudevents_batch`: CloudEvents.
   */
  body?: "entry" | "batch" | "cloudevents" | "cloudevents_binary" | "cloudevents_batch";
  /**
   * Maximum number of entries per batch.
   */
  batchMax?: number;
  /**
   * Signature as of Standard Webhooks. `v1`: HMAC-SHA256 with the secret. `v1a`: Ed25519 with the key of the gateway; the public key is at `/v1/push/jwks.json`.
   */
  signature?: "v1" | "v1a";
  /**
   * Time without a success after which a failing push is disabled.
   */
  disableAfterMs?: number;
  /**
   * How many days the gateway keeps the attempts of the push, at most the latest 10,000. 0: it keeps none.
   */
  attemptsDays?: number;
  /**
   * Additional headers of each request. Their values are stored as secrets.
   */
  headers?: {
    [k: string]: string;
  };
}
/**
 * Settings of a push over a pattern.
 */
export interface PatternPushInput {
  /**
   * Where to send requests: an https URL with a public address, unless the operator allows others. It is stored as a secret.
   */
  url: string;
  /**
   * Maximum number of concurrent requests.
   */
  concurrency?: number;
  /**
   * Timeout of a request, including its answer.
   */
  timeoutMs?: number;
  /**
   * `entry`: one entry, in the form of a read of the group. `batch`: up to `batch_max` entries. `cloudevents`, `cloudevents_binary`, `cloudevents_batch`: CloudEvents.
   */
  body?: "entry" | "batch" | "cloudevents" | "cloudevents_binary" | "cloudevents_batch";
  /**
   * Maximum number of entries per batch.
   */
  batchMax?: number;
  /**
   * Signature as of Standard Webhooks. `v1`: HMAC-SHA256 with the secret. `v1a`: Ed25519 with the key of the gateway; the public key is at `/v1/push/jwks.json`.
   */
  signature?: "v1" | "v1a";
  /**
   * Time without a success after which a failing push is disabled.
   */
  disableAfterMs?: number;
  /**
   * How many days the gateway keeps the attempts of the push, at most the latest 10,000. 0: it keeps none.
   */
  attemptsDays?: number;
  /**
   * Additional headers of each request. Their values are stored as secrets.
   */
  headers?: {
    [k: string]: string;
  };
  /**
   * Number of entries per turn, by name of the stream. Default: 1.
   */
  weights?: {
    [k: string]: number;
  };
  /**
   * Create the group, with these settings, in streams that lack it.
   */
  create?: MissingGroups | null;
}
/**
 * A push and its state.
 */
export interface PushSummary {
  /**
   * Stream of the push. With `match`: its pattern.
   */
  stream: string;
  /**
   * Pattern, for a push over a pattern.
   */
  match?: string;
  /**
   * For a push over a pattern.
   */
  weights?: {
    [k: string]: number;
  };
  /**
   * For a push over a pattern.
   */
  create?: MissingGroups | null;
  group: string;
  /**
   * Null if the key that encrypted the secrets is missing.
   */
  url: string | null;
  /**
   * Maximum number of concurrent requests.
   */
  concurrency: number;
  /**
   * Timeout of a request, including its answer.
   */
  timeoutMs: number;
  /**
   * `entry`: one entry, in the form of a read of the group. `batch`: up to `batch_max` entries. `cloudevents`, `cloudevents_binary`, `cloudevents_batch`: CloudEvents.
   */
  body: "entry" | "batch" | "cloudevents" | "cloudevents_binary" | "cloudevents_batch";
  /**
   * Maximum number of entries per batch.
   */
  batchMax: number;
  /**
   * Signature as of Standard Webhooks. `v1`: HMAC-SHA256 with the secret. `v1a`: Ed25519 with the key of the gateway; the public key is at `/v1/push/jwks.json`.
   */
  signature: "v1" | "v1a";
  /**
   * Time without a success after which a failing push is disabled.
   */
  disableAfterMs: number;
  /**
   * How many days the gateway keeps the attempts of the push, at most the latest 10,000. 0: it keeps none.
   */
  attemptsDays: number;
  /**
   * Names of `headers`. Their values are never shown.
   */
  headerNames: string[];
  /**
   * `active`. `failing`: all requests fail, so the gateway only sends one request from time to time. `paused`. `disabled`: the push sends nothing until it is resumed. `unreadable`: the key that encrypted its secrets is missing; set the push again.
   */
  state: "active" | "failing" | "paused" | "disabled" | "unreadable";
  failingSinceMs: number | null;
  /**
   * Consecutive failed requests.
   */
  failureCount: number;
  disabledAtMs: number | null;
  disabledReason: string | null;
  /**
   * Public key of the gateway, with `v1a`; null otherwise.
   */
  publicKey: string | null;
  /**
   * Until when the previous secret is also used.
   */
  previousSecretUntilMs: number | null;
  createdAtMs: number;
  /**
   * Entries that the receiver has acknowledged.
   */
  deliveredCount: number;
  /**
   * Requests that failed.
   */
  failedCount: number;
  /**
   * The latest replay.
   */
  replay: PushReplay | null;
}
/**
 * A page of attempts.
 */
export interface PushAttempts {
  attempts: PushAttempt[];
  /**
   * Pass it as `cursor` to get the next page; null: this is the last page.
   */
  nextCursor: string | null;
}
/**
 * Entries to send again.
 */
export interface PushReplayInput {
  /**
   * An id or a time; `(id` excludes the id.
   */
  start: string;
  /**
   * An id or a time; `(id` excludes the id.
   */
  end?: string;
  /**
   * A filter, as in reads: only matching entries are sent again.
   */
  filter?: {
    [k: string]: unknown;
  };
  /**
   * Only count the entries.
   */
  dryRun?: boolean;
}
/**
 * A page of pushes.
 */
export interface Pushes {
  pushes: PushSummary[];
  /**
   * Pass it as `cursor` to get the next page; null: this is the last page.
   */
  nextCursor: string | null;
}
/**
 * A read as a consumer of a group over a pattern; all parts are optional.
 */
export interface ReadGroups {
  /**
   * Maximum number of entries.
   */
  limit?: number;
  /**
   * How long to wait if there are no entries.
   */
  waitMs?: number;
  /**
   * First claim entries that are pending with any consumer and have been idle for this long.
   */
  claimIdleMs?: number | null;
  /**
   * Deliver new entries without requiring acknowledgement.
   */
  noAck?: boolean;
  /**
   * Maximum number of entries that the consumer may hold in all streams.
   */
  maxPending?: number | null;
  /**
   * Number of entries per turn, by name of the stream. Default: 1.
   */
  weights?: {
    [k: string]: number;
  };
  create?: MissingGroups | null;
  /**
   * Acknowledge these entries first.
   *
   * @maxItems 1000
   */
  ack?: StreamIds[];
}
/**
 * Entry ids of one stream.
 */
export interface StreamIds {
  /**
   * @minItems 1
   */
  ids: string[];
  stream: string;
}
/**
 * Entries delivered to a consumer, each with its stream.
 */
export interface GroupsEntries {
  entries: StreamDelivery[];
  /**
   * Number of entries that this consumer holds in all streams.
   */
  pending: number;
  /**
   * Whether more entries are available, and if not, why.
   */
  state: "live" | "caught_up" | "max_pending" | "key_blocked" | "paused" | "rate_limited" | "closed";
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
  namesBase64?: boolean;
  /**
   * Unix time before which groups do not deliver the entry.
   */
  deliverAtMs?: number;
  /**
   * Unix time from which groups no longer deliver the entry.
   */
  expiresAtMs?: number;
  /**
   * Number of deliveries, including this one.
   */
  deliveries: number;
  /**
   * Idle time of the entry when it was claimed.
   */
  idleMs: number;
  /**
   * Consumer that held the entry before it was claimed.
   */
  claimedFrom?: string;
  /**
   * Error of the last nack that gave one.
   */
  lastError?: string;
  stream: string;
}
/**
 * Outcomes for one stream, in the order of its ids.
 */
export interface SettledStream {
  stream: string;
  results: Settled[];
}
/**
 * Outcomes for each stream, in the order of the request.
 */
export interface SettledStreams {
  streams: SettledStream[];
}
/**
 * The entries that are retried at once.
 */
export interface RetriedPush {
  /**
   * Number of entries that were waiting after a failure and are now due.
   */
  entries: number;
}
/**
 * A step of a commit: an object with exactly one of these members.
 */
export interface CommitStep {
  append?: CommitAppend | null;
  putRow?: CommitPutRow | null;
  deleteRow?: CommitDeleteRow | null;
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
  ifLastId?: string | null;
  /**
   * Create the stream if it does not exist.
   */
  createStream?: boolean;
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
  namesBase64?: boolean;
  /**
   * Time until groups deliver the entry; up to 90 days.
   */
  delayMs?: number | null;
  /**
   * Instead of `delay_ms`: unix time before which groups do not deliver the entry.
   */
  deliverAtMs?: number | null;
  /**
   * Time from now after which groups no longer deliver the entry.
   */
  ttlMs?: number | null;
  /**
   * Instead of `ttl_ms`: unix time after which groups no longer deliver the entry.
   */
  expiresAtMs?: number | null;
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
  namesBase64?: boolean;
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
  ifMatch?: string | null;
  /**
   * Instead of `if_match`: fail if the row exists before the commit.
   */
  ifNoneMatch?: "*" | null;
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
  ifMatch?: string | null;
  /**
   * Instead of `if_match`: fail if the row exists before the commit.
   */
  ifNoneMatch?: "*" | null;
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
  delayMs?: number | null;
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
  namesBase64?: boolean;
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
  atMs: number;
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
 * Result of each step, in order.
 */
export interface CommitDone {
  results: CommitResult[];
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
 * The members that are present.
 */
export interface PresentMembers {
  /**
   * The first members.
   */
  members: PresentMember[];
  /**
   * Number of all members.
   */
  memberCount: number;
  /**
   * Number of all connections of the members.
   */
  connectionCount: number;
  /**
   * False if the gateway has just started and members may not have reconnected yet.
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
  sinceMs: number;
  /**
   * Data about the connection, from its client.
   */
  data: {
    [k: string]: unknown;
  };
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
  namesBase64?: boolean;
  /**
   * Unix time before which groups do not deliver the entry.
   */
  deliverAtMs?: number;
  /**
   * Unix time from which groups no longer deliver the entry.
   */
  expiresAtMs?: number;
  /**
   * Value of the key field. It is written as `base64:` followed by base64 if it is empty, is not UTF-8, or starts with `base64:`.
   */
  key: string;
}
/**
 * Rows of a table, in byte order of their keys.
 */
export interface TableRows {
  rows: Row[];
  /**
   * Pass it as `after_key`, with `as_of`, to get the next page; null: this is the last page.
   */
  nextAfterKey: string | null;
  /**
   * Last id of the stream when the rows had this state. Later entries change the rows.
   */
  asOf: string;
}
/**
 * The entry that changed a row.
 */
export interface RowWritten {
  /**
   * Value of the key field. It is written as `base64:` followed by base64 if it is empty, is not UTF-8, or starts with `base64:`.
   */
  key: string;
  /**
   * Id of an entry.
   */
  id: string;
}
/**
 * An error. The request changed nothing.
 */
export interface ProblemDetails {
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
  retryAfterMs?: number | null;
  /**
   * All faults of the request, each with its place.
   */
  errors?: ProblemError[] | null;
  /**
   * Last id of the stream, if the problem is about it.
   */
  lastId?: string | null;
  /**
   * Id of the entry that is too large for its reader, if the problem is about it.
   */
  entryId?: string | null;
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
  requestId?: string | null;
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
 * Error of a change of a row: the row is not in the state that the request expects.
 */
export interface RowProblemDetails {
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
  retryAfterMs?: number | null;
  /**
   * All faults of the request, each with its place.
   */
  errors?: ProblemError[] | null;
  /**
   * Last id of the stream, if the problem is about it.
   */
  lastId?: string | null;
  /**
   * Id of the entry that is too large for its reader, if the problem is about it.
   */
  entryId?: string | null;
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
  requestId?: string | null;
  /**
   * The current row, if it exists.
   */
  row?: {
    [k: string]: unknown;
  } | null;
}
/**
 * Error of a commit: entries are not pending with its consumer. The commit changed nothing.
 */
export interface FenceProblemDetails {
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
  retryAfterMs?: number | null;
  /**
   * All faults of the request, each with its place.
   */
  errors?: ProblemError[] | null;
  /**
   * Last id of the stream, if the problem is about it.
   */
  lastId?: string | null;
  /**
   * Id of the entry that is too large for its reader, if the problem is about it.
   */
  entryId?: string | null;
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
  requestId?: string | null;
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
