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
  Pushes: Pushes;
  ReadGroups: ReadGroups;
  GroupsEntries: GroupsEntries;
  StreamDelivery: StreamDelivery;
  NewGroups: NewGroups;
  StreamIds: StreamIds;
  SettledStream: SettledStream;
  SettledStreams: SettledStreams;
  RetriedPush: RetriedPush;
  CommitStep: CommitStep;
  CommitDone: CommitDone;
  Row: Row;
  TableRows: TableRows;
  RowWritten: RowWritten;
  ProblemDetails: ProblemDetails;
  RowProblemDetails: RowProblemDetails;
  FenceProblemDetails: FenceProblemDetails;
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
  namesBase64?: boolean;
  /**
   * Groups deliver it no sooner than this unix time.
   */
  deliverAtMs?: number;
  /**
   * Groups deliver it no more from this unix time on.
   */
  expiresAtMs?: number;
}
/**
 * The entry's fields.
 */
export interface FieldMap {
  [k: string]: string;
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
  namesBase64?: boolean;
  /**
   * Groups deliver it no sooner than this unix time.
   */
  deliverAtMs?: number;
  /**
   * Groups deliver it no more from this unix time on.
   */
  expiresAtMs?: number;
  /**
   * Number of its deliveries, this one included.
   */
  deliveries: number;
  /**
   * Idle time when it was claimed.
   */
  idleMs: number;
  /**
   * Whom it was taken from.
   */
  claimedFrom?: string;
  /**
   * The error of its last nack that had one.
   */
  lastError?: string;
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
  namesBase64?: boolean;
  /**
   * Groups deliver it so much later. Up to 90 days.
   */
  delayMs?: number | null;
  /**
   * Instead: groups deliver it no sooner than this unix time.
   */
  deliverAtMs?: number | null;
  /**
   * Groups deliver it for so long, from now on, and then no more.
   */
  ttlMs?: number | null;
  /**
   * Instead: groups deliver it until this unix time.
   */
  expiresAtMs?: number | null;
  /**
   * `*`, `ms-*`, or an explicit id above the last.
   */
  id?: string;
}
/**
 * Entries of one stream.
 */
export interface Entries {
  entries: Entry[];
  /**
   * Cursor for the next read, ascending. With a filter it is behind what was looked at; null: that was all of the range.
   */
  nextAfter: string | null;
  /**
   * The same for a range that is read downwards: `end=(` and this id.
   */
  nextBefore?: string | null;
  /**
   * The stream's last id.
   */
  lastId: string;
  /**
   * Trimmed entries between the cursor and the oldest.
   */
  gap: Gap | null;
  /**
   * True if the entries begin below those of the stream: they were trimmed, and its archive has them.
   */
  archived?: boolean;
  /**
   * After a cursor: when the stream was closed, if nothing comes behind `next_after` any more.
   */
  closedAtMs?: number | null;
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
 * The entries for a consumer.
 */
export interface GroupEntries {
  entries: Delivery[];
  /**
   * Own pending ids whose entries are gone from the stream; ack them.
   */
  deletedIds?: string[];
  /**
   * Entries the group has still to be given, if known.
   */
  lag: number | null;
  /**
   * Entries this consumer holds now.
   */
  pending: number;
  /**
   * Whether there is more, and why not.
   */
  state: "live" | "caught_up" | "max_pending" | "key_blocked" | "paused" | "rate_limited" | "closed";
}
/**
 * The result of an append.
 */
export interface Appended {
  /**
   * Entry id; of a batch of events that of the last.
   */
  id: string;
  /**
   * Of a batch of events: one each, in order.
   */
  ids?: string[];
}
/**
 * The result of a batch of appends.
 */
export interface AppendedBatch {
  count: number;
  /**
   * Entry id.
   */
  firstId: string;
  /**
   * Entry id.
   */
  lastId: string;
  /**
   * One per entry, in order.
   */
  ids: string[];
}
/**
 * The end of a stream.
 */
export interface ClosedStream {
  /**
   * Of the last append; none if there was none.
   */
  ids: string[];
  /**
   * Identity of this life of the stream's name.
   */
  epoch: number;
  /**
   * When the stream was closed.
   */
  closedAtMs: number;
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
 * The outcome of each id, in order.
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
   * Identity of this life of the name; a later life has a greater.
   */
  epoch: number;
  /**
   * Entries in it.
   */
  length: number;
  /**
   * Of the oldest entry; null if it is empty.
   */
  firstId: string | null;
  /**
   * The last id ever generated.
   */
  lastId: string;
  /**
   * The greatest id ever deleted; trims do not count.
   */
  maxDeletedId: string;
  /**
   * Entries ever added.
   */
  entriesAdded: number;
  /**
   * How many groups it has.
   */
  groups: number;
  /**
   * How many chunks hold its entries.
   */
  chunks: number;
  /**
   * Memory of its entries, about; null at servers.
   */
  hotBytes: number | null;
  /**
   * Size of its entries that are on disk alone, about; null at servers.
   */
  coldBytes: number | null;
  /**
   * Since when it takes no entries; null: it is open.
   */
  closedAtMs: number | null;
  /**
   * Entries that were trimmed and stay readable in its archive.
   */
  archivedCount: number;
  /**
   * Of the oldest of them; null if there is none.
   */
  archivedFirstId: string | null;
  table?: TableState;
  config: StreamConfig;
}
/**
 * If it has a `key_field`.
 */
export interface TableState {
  /**
   * Rows, about.
   */
  rows: number;
  /**
   * Entries up to this id are indexed.
   */
  indexedThrough: string;
  /**
   * False while the table is being built. Reads may answer `unavailable` then.
   */
  isComplete: boolean;
}
/**
 * The retention of a stream's entries and of its writers' keys; null is the default.
 */
export interface StreamConfig {
  /**
   * Keep the newest so many.
   */
  maxLength?: number | null;
  /**
   * Keep entries whose id is not older.
   */
  maxAgeMs?: number | null;
  /**
   * How long an idempotency key protects; 100 s unless given.
   */
  idempotencyWindowMs?: number | null;
  /**
   * Keys remembered of each producer, the newest; 100 unless given.
   */
  idempotencyMax?: number | null;
  /**
   * What its retention and trims remove stays readable over REST, as its archive.
   */
  archive?: boolean | null;
  /**
   * Of its newest entries, so many bytes stay on the disk when others leave it for the bucket, as far as there is room.
   */
  localBytes?: number | null;
  /**
   * The stream is a table as well: the latest entry of each value of this field is a row. Entries with a value of more than 1,024 bytes are in no row.
   */
  keyField?: string | null;
  /**
   * An entry with this field removes the row of its key; `deleted` unless given.
   */
  tombstoneField?: string | null;
  /**
   * `latest` compacts the stream of a table: an entry is removed in the background once a later one with its key has superseded it and no group has to read or settle it.
   */
  retain?: Retained | null;
  /**
   * With `retain: latest`, the minimum age of entries to remove; 1 hour unless given.
   */
  compactAfterMs?: number | null;
  /**
   * With `retain: latest`, also remove entries that groups have not read yet.
   */
  compactUnread?: boolean | null;
  /**
   * With `retain: latest`, remove only entries whose ids are below this unix time: later ones are not archived yet. `headgate-pipeline trim --superseded` sets it.
   */
  archivedUntilMs?: number | null;
  /**
   * With `retain: latest`, the minimum age of an entry that removed a row before it is removed, too; 1 day unless given.
   */
  tombstoneMs?: number | null;
}
/**
 * A stream, and with `full` what is in it.
 */
export interface StreamDetail {
  name: string;
  /**
   * Identity of this life of the name; a later life has a greater.
   */
  epoch: number;
  /**
   * Entries in it.
   */
  length: number;
  /**
   * Of the oldest entry; null if it is empty.
   */
  firstId: string | null;
  /**
   * The last id ever generated.
   */
  lastId: string;
  /**
   * The greatest id ever deleted; trims do not count.
   */
  maxDeletedId: string;
  /**
   * Entries ever added.
   */
  entriesAdded: number;
  /**
   * How many groups it has.
   */
  groups: number;
  /**
   * How many chunks hold its entries.
   */
  chunks: number;
  /**
   * Memory of its entries, about; null at servers.
   */
  hotBytes: number | null;
  /**
   * Size of its entries that are on disk alone, about; null at servers.
   */
  coldBytes: number | null;
  /**
   * Since when it takes no entries; null: it is open.
   */
  closedAtMs: number | null;
  /**
   * Entries that were trimmed and stay readable in its archive.
   */
  archivedCount: number;
  /**
   * Of the oldest of them; null if there is none.
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
   * With `full`: how many more groups there are.
   */
  groupsLeftOut?: number;
}
/**
 * If it has a `key_field`.
 */
export interface TableState1 {
  /**
   * Rows, about.
   */
  rows: number;
  /**
   * Entries up to this id are indexed.
   */
  indexedThrough: string;
  /**
   * False while the table is being built. Reads may answer `unavailable` then.
   */
  isComplete: boolean;
}
/**
 * A group with its pending entries and its consumers.
 */
export interface GroupDetail {
  name: string;
  /**
   * Last delivered id; the group reads after it.
   */
  lastId: string;
  /**
   * Its place in all entries ever added, if known.
   */
  entriesRead: number | null;
  /**
   * Entries it has still to be given, if known.
   */
  lag: number | null;
  /**
   * Entries delivered and not acknowledged.
   */
  pending: number;
  /**
   * Those of them nobody owns: the next reader gets them.
   */
  released: number;
  /**
   * Those of them nobody gets before a time, about.
   */
  delayed: number;
  consumers: number;
  policy: Policy;
  noisyKey?: NoisyKey;
  pendingEntries: PendingEntry[];
  consumerDetails: GroupConsumer[];
  /**
   * Number of its other consumers.
   */
  consumersLeftOut: number;
}
/**
 * The policy of a group, which it follows by itself; every part may be left out or null.
 */
export interface Policy {
  /**
   * Reads that do not say it take over entries idle for so long.
   */
  claimIdleMs?: number | null;
  /**
   * An entry delivered so often goes to `dead_letter_stream` when it fails.
   */
  maxDeliveries?: number | null;
  /**
   * Where such entries go, with `_stream`, `_id`, `_group`, `_deliveries` and `_reason` behind their own fields; then `_error`, if a nack carried one.
   */
  deadLetterStream?: string | null;
  /**
   * How long a failed entry rests before its 2nd, 3rd … delivery.
   */
  backoffMs?: number[] | null;
  /**
   * A consumer with so many unacknowledged entries gets no more.
   */
  maxPending?: number | null;
  /**
   * What becomes of a connection's unacknowledged entries in the end.
   */
  onDisconnect?: OnDisconnect | null;
  /**
   * A consumer idle for so long, with nothing pending, is removed.
   */
  consumerTtlMs?: number | null;
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
  pausedUntilMs?: number | null;
  /**
   * The group delivers so many entries a second, at most.
   */
  ratePerS?: number | null;
  /**
   * So many may come at once after a rest; `rate_per_s` unless given.
   */
  rateBurst?: number | null;
  /**
   * Entries with the same value of this field are delivered in order: the next one when the one before is acknowledged or a dead letter.
   */
  keyField?: string | null;
  /**
   * So many with the same value are pending at once; 1 unless given.
   */
  keyPendingMax?: number | null;
  /**
   * So many entries are held back until others with their value are settled; 10,000 unless given, 100,000 at most. The group reads no further then. With `fair_field`, so many are indexed ahead; 10,000,000 unless given. Those behind them wait in order.
   */
  keyAheadMax?: number | null;
  /**
   * What becomes of entries whose deadline is over; `dead_letter` needs a `dead_letter_stream`.
   */
  onExpiry?: OnExpiry | null;
  /**
   * Values of this field take turns: however many entries wait with one value, those with another come next. Entries without the field share one turn.
   */
  fairField?: string | null;
  /**
   * So many entries of a value in its turn, by value; 1 of all others.
   */
  weights?: {
    [k: string]: number;
  } | null;
  /**
   * Entries with a higher digit, 0 to 9, in this field come first; 0 if there is none.
   */
  priorityField?: string | null;
  /**
   * An entry that waits rises by one priority in so long.
   */
  priorityAgeMs?: number | null;
}
/**
 * The key of a fair group that has more than half of what waits.
 */
export interface NoisyKey {
  key: string | null;
  waiting: number;
}
/**
 * An entry that was delivered and not acknowledged.
 */
export interface PendingEntry {
  /**
   * Entry id.
   */
  id: string;
  /**
   * Owner; null: none, it was released.
   */
  consumer: string | null;
  /**
   * Since its last delivery; null: nobody holds it.
   */
  idleMs: number | null;
  deliveries: number;
  /**
   * Nobody gets it for so long.
   */
  delayMs?: number;
  /**
   * The error of its last nack that had one.
   */
  lastError?: string;
  /**
   * The entry with the same key that is to be settled before it.
   */
  waitsFor?: string;
}
/**
 * A consumer of a group.
 */
export interface GroupConsumer {
  name: string;
  /**
   * Entries it holds.
   */
  pending: number;
  /**
   * Since it last tried to read or claim.
   */
  idleMs: number;
  /**
   * Since it last got something; null: never.
   */
  inactiveMs: number | null;
}
/**
 * A page of streams, by name.
 */
export interface Streams {
  streams: StreamInfo[];
  /**
   * Pass it as `cursor` for the next page; null: this was the last.
   */
  nextCursor: string | null;
}
/**
 * The entries that a trim keeps: give `max_length` or `min_id`.
 */
export interface Trim {
  /**
   * Keep the newest so many.
   */
  maxLength?: number | null;
  /**
   * Keep this id and all above.
   */
  minId?: string | null;
  /**
   * Remove only what goes cheaply, and so keep a little more.
   */
  approximate?: boolean;
  /**
   * With `approximate`: remove so many at most; 0 is no limit.
   */
  limit?: number | null;
  /**
   * Where an entry is pending in a group: `keep` removes it and it stays pending there, `delete` makes it pending no more, `acked` spares what a group has not read or not acknowledged.
   */
  references?: "keep" | "delete" | "acked";
}
/**
 * The entries to delete, and the treatment of pending ones.
 */
export interface Deletions {
  /**
   * @minItems 1
   */
  ids: string[];
  /**
   * Where an entry is pending in a group: `keep` removes it and it stays pending there, `delete` makes it pending no more, `acked` spares what a group has not read or not acknowledged.
   */
  references?: "keep" | "delete" | "acked";
}
/**
 * A consumer group.
 */
export interface GroupInfo {
  name: string;
  /**
   * Last delivered id; the group reads after it.
   */
  lastId: string;
  /**
   * Its place in all entries ever added, if known.
   */
  entriesRead: number | null;
  /**
   * Entries it has still to be given, if known.
   */
  lag: number | null;
  /**
   * Entries delivered and not acknowledged.
   */
  pending: number;
  /**
   * Those of them nobody owns: the next reader gets them.
   */
  released: number;
  /**
   * Those of them nobody gets before a time, about.
   */
  delayed: number;
  consumers: number;
  policy: Policy;
  noisyKey?: NoisyKey;
}
/**
 * A page of the groups of a stream, by name.
 */
export interface Groups {
  groups: GroupInfo[];
  /**
   * Pass it as `cursor` for the next page; null: this was the last.
   */
  nextCursor: string | null;
}
/**
 * A group to create.
 */
export interface GroupInput {
  /**
   * Read after this id; `$` is the last one, `0` reads everything.
   */
  start?: string;
  /**
   * Create the stream if it is not there.
   */
  createStream?: boolean;
  /**
   * Number of entries before `start`, if you know; `lag` follows from it.
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
   * Number of entries before its position; unknown if only `start` is given.
   */
  entriesRead?: number | null;
  /**
   * The parts to change; a part that is null is removed.
   */
  policy?: Policy | null;
}
/**
 * A page of the consumers of a group, by name.
 */
export interface Consumers {
  consumers: GroupConsumer[];
  /**
   * Pass it as `cursor` for the next page; null: this was the last.
   */
  nextCursor: string | null;
}
/**
 * A key of a fair group: a value of its `fair_field`.
 */
export interface GroupKey {
  /**
   * The value; null: entries without the field, together.
   */
  key: string | null;
  /**
   * Entries that are not delivered yet.
   */
  waiting: number;
  /**
   * Entries that consumers hold.
   */
  pending: number;
  /**
   * The first entry that waits.
   */
  oldestId: string | null;
  /**
   * Time since the id of the first entry that waits.
   */
  oldestAgeMs: number | null;
  /**
   * Its share of the deliveries of the last minute, from 0 to 1.
   */
  share: number;
  /**
   * As many of its entries are pending as `key_pending_max` allows.
   */
  isResting: boolean;
}
/**
 * Keys of a fair group.
 */
export interface GroupKeys {
  keys: GroupKey[];
  /**
   * Keys with entries that wait.
   */
  keyCount: number;
  /**
   * Entries of all keys that wait.
   */
  waiting: number;
  /**
   * false: more entries wait behind these. They are indexed in order, as there is room (`key_ahead_max`).
   */
  isComplete: boolean;
}
/**
 * A read as a consumer of a group; every part may be left out.
 */
export interface ReadGroup {
  /**
   * Entries at most.
   */
  limit?: number;
  /**
   * Time to wait if there is nothing.
   */
  waitMs?: number;
  /**
   * First take entries pending with anybody and idle for so long.
   */
  claimIdleMs?: number | null;
  /**
   * `>`: entries new to the group. `0` or an id: one's own pending ones.
   */
  from?: string;
  /**
   * New entries need no acknowledgement.
   */
  noAck?: boolean;
  /**
   * Acknowledge these first.
   */
  ack?: string[];
}
/**
 * Deliveries to give back.
 */
export interface Nack {
  /**
   * @minItems 1
   */
  ids: string[];
  /**
   * `silent`: it was never tried, and does not count. `fail`: it was tried. `fatal`: it cannot work; its count becomes the greatest there is.
   */
  mode?: "silent" | "fail" | "fatal";
  /**
   * Nobody gets them before that; the group's `backoff_ms` if it is left out.
   */
  delayMs?: number | null;
  /**
   * Error of the consumer. It comes as `last_error` with the next delivery, and goes into the dead letter as `_error`.
   */
  error?: string | null;
}
/**
 * Pending entries to take over.
 */
export interface Claim {
  /**
   * @minItems 1
   */
  ids: string[];
  /**
   * Leave out those idle for less.
   */
  minIdleMs: number;
  /**
   * Set their idle time to this.
   */
  idleMs?: number | null;
  /**
   * Set their delivery time to this.
   */
  timeMs?: number | null;
  /**
   * Set their delivery count to this.
   */
  retryCount?: number | null;
  /**
   * Make live entries pending that are not.
   */
  force?: boolean;
  /**
   * Answer only ids, and do not count a delivery.
   */
  justId?: boolean;
}
/**
 * The entries of a claim.
 */
export interface Claimed {
  ids: string[];
  /**
   * The entries, unless `just_id`.
   */
  entries?: Delivery[];
  /**
   * Were pending, are gone from the stream, and are pending no more.
   */
  deletedIds: string[];
}
/**
 * Idle entries to take over, whichever they are.
 */
export interface Autoclaim {
  /**
   * Leave out those idle for less.
   */
  minIdleMs: number;
  /**
   * Begin at this id; `next` of the page before.
   */
  start?: string;
  /**
   * Entries at most.
   */
  limit?: number;
  /**
   * Answer only ids, and do not count a delivery.
   */
  justId?: boolean;
}
/**
 * A page of what an autoclaim got.
 */
export interface Autoclaimed {
  ids: string[];
  /**
   * The entries, unless `just_id`.
   */
  entries?: Delivery[];
  /**
   * Were pending, are gone from the stream, and are pending no more.
   */
  deletedIds: string[];
  /**
   * `start` of the next page; `0-0` when the scan is complete.
   */
  next: string;
}
/**
 * The pending entries of a group, summed up with their consumers.
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
 * The number of a consumer's pending entries.
 */
export interface ConsumerPending {
  name: string;
  pending: number;
}
/**
 * Dead letters to send back; all parts may be left out.
 */
export interface Redrive {
  /**
   * By their ids in the dead letter stream; else the oldest.
   */
  ids?: string[] | null;
  /**
   * So many at most.
   */
  limit?: number;
}
/**
 * A dead letter that was sent back.
 */
export interface Redriven {
  /**
   * Its id in the dead letter stream, where it is no more.
   */
  id: string;
  /**
   * `released`: the group's next reader gets the entry. `appended`: it was gone from its stream and is a new entry there, for every group.
   */
  outcome: "released" | "appended";
  /**
   * Its id in the stream it came from.
   */
  entryId: string;
}
/**
 * The outcome of each dead letter.
 */
export interface RedrivenEntries {
  results: Redriven[];
}
/**
 * Pending entries, by id.
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
 * The outcome of each id, in order.
 */
export interface DeletedEntries {
  results: Deleted[];
}
/**
 * The outcome of one id.
 */
export interface Deleted {
  /**
   * Entry id.
   */
  id: string;
  outcome: Deletion;
}
/**
 * The pending entries of a deleted consumer.
 */
export interface DeletedConsumer {
  /**
   * Number of entries that were released or dropped.
   */
  pending: number;
}
/**
 * A ticket for the query of a URL.
 */
export interface Ticket {
  /**
   * Append `?ticket=` and this to a URL of events or a socket.
   */
  ticket: string;
  /**
   * When it ends; no later than your own credential.
   */
  expiresAtMs: number;
}
/**
 * The rights of a new ticket.
 */
export interface TicketRequest {
  /**
   * The one stream that it allows.
   */
  stream: string;
  /**
   * With `consume`: the group.
   */
  group?: string | null;
  /**
   * With `consume`: only as this consumer.
   */
  consumer?: string | null;
  /**
   * Verbs that it allows; you must have them yourself.
   *
   * @minItems 1
   * @maxItems 3
   */
  do: ("read" | "append" | "consume")[];
  /**
   * Time that it is valid, for any number of connections.
   */
  ttlMs?: number;
}
/**
 * A schedule, and how far it has come.
 */
export interface ScheduleInfo {
  name: string;
  /**
   * Stream that gets the entries.
   */
  stream: string;
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
  namesBase64?: boolean;
  /**
   * Minute, hour, day of month, month, day of week, as Debian's cron reads them.
   */
  cron: string;
  /**
   * IANA name of the time zone.
   */
  timeZone: string;
  /**
   * Due times that nobody could run for a minute: the latest of them is run late, or none is.
   */
  missed: "run_once" | "skip";
  /**
   * Nothing is due until it goes on.
   */
  paused: boolean;
  /**
   * The next due time; null while it is paused, or if there is none.
   */
  nextDueMs: number | null;
  /**
   * The due time of the last entry; null: there was none yet.
   */
  lastDueMs: number | null;
  /**
   * Of the last entry.
   */
  lastId: string | null;
  /**
   * Due times without an entry, as nobody could run them.
   */
  missedCount: number;
  /**
   * Appends that were refused.
   */
  refusedCount: number;
  /**
   * Why the last append was refused; null: it was not.
   */
  problem: ScheduleRefusal | null;
}
/**
 * The last append of a schedule that was refused.
 */
export interface ScheduleRefusal {
  /**
   * The problem, for programs.
   */
  code: string;
  /**
   * The problem, for people.
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
   * Pass it as `cursor` for the next page; null: this was the last.
   */
  nextCursor: string | null;
}
/**
 * A push, with the answers of its receiver.
 */
export interface PushInfo {
  /**
   * Its stream; or its pattern, if `match` is there.
   */
  stream: string;
  /**
   * The pattern of a push over one.
   */
  match?: string;
  /**
   * Of a push over a pattern.
   */
  weights?: {
    [k: string]: number;
  };
  /**
   * Of a push over a pattern.
   */
  create?: NewGroups | null;
  group: string;
  /**
   * Null: the key is missing that encrypted the secrets.
   */
  url: string | null;
  /**
   * Requests at a time, at most.
   */
  concurrency: number;
  /**
   * Time for one request, with its answer.
   */
  timeoutMs: number;
  /**
   * `entry`: one entry, as a read of the group has it. `batch`: up to `batch_max` of them. `cloudevents`, `cloudevents_binary`, `cloudevents_batch`: events.
   */
  body: "entry" | "batch" | "cloudevents" | "cloudevents_binary" | "cloudevents_batch";
  /**
   * Entries of a batch, at most.
   */
  batchMax: number;
  /**
   * Of Standard Webhooks. `v1`: HMAC-SHA256 by the secret. `v1a`: Ed25519 by the gateway; the key is at `/v1/push/jwks.json`.
   */
  signature: "v1" | "v1a";
  /**
   * Behind nothing but failures for so long, the push is disabled.
   */
  disableAfterMs: number;
  /**
   * Of `headers`; no one is told values.
   */
  headerNames: string[];
  /**
   * `active`. `failing`: nothing but failures, so it is tried with one request now and then. `paused`. `disabled`: it sends nothing until it is resumed. `unreadable`: the key is missing that encrypted its secrets; set it anew.
   */
  state: "active" | "failing" | "paused" | "disabled" | "unreadable";
  failingSinceMs: number | null;
  /**
   * Requests that failed, one after the other.
   */
  failureCount: number;
  disabledAtMs: number | null;
  disabledReason: string | null;
  /**
   * Of the gateway, for `v1a`; null: requests are not signed with it.
   */
  publicKey: string | null;
  /**
   * Until then the secret before this one is good as well.
   */
  previousSecretUntilMs: number | null;
  createdAtMs: number;
  /**
   * Entries that were acknowledged.
   */
  deliveredCount: number;
  /**
   * Requests that were not.
   */
  failedCount: number;
  /**
   * Shown once: when it is new.
   */
  secret?: string;
  /**
   * The last 50, the newest first.
   */
  answers: PushAttempt[];
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
 * A request of a push, and what came of it.
 */
export interface PushAttempt {
  atMs: number;
  tookMs: number;
  webhookId: string;
  entryCount: number;
  /**
   * Of the answer; null: there was none.
   */
  status: number | null;
  /**
   * Why it does not acknowledge; null: it does.
   */
  error: string | null;
  /**
   * The beginning of an answer that does not acknowledge.
   */
  excerpt: string | null;
  /**
   * The receiver wanted nothing for so long (429 and 503).
   */
  retryAfterS: number | null;
}
/**
 * A push to set.
 */
export interface PushInput {
  /**
   * Where requests go: https, to a public address, unless the operator allows others. It is kept as a secret.
   */
  url: string;
  /**
   * Requests at a time, at most.
   */
  concurrency?: number;
  /**
   * Time for one request, with its answer.
   */
  timeoutMs?: number;
  /**
   * `entry`: one entry, as a read of the group has it. `batch`: up to `batch_max` of them. `cloudevents`, `cloudevents_binary`, `cloudevents_batch`: events.
   */
  body?: "entry" | "batch" | "cloudevents" | "cloudevents_binary" | "cloudevents_batch";
  /**
   * Entries of a batch, at most.
   */
  batchMax?: number;
  /**
   * Of Standard Webhooks. `v1`: HMAC-SHA256 by the secret. `v1a`: Ed25519 by the gateway; the key is at `/v1/push/jwks.json`.
   */
  signature?: "v1" | "v1a";
  /**
   * Behind nothing but failures for so long, the push is disabled.
   */
  disableAfterMs?: number;
  /**
   * Headers of each request. Their values are kept as secrets.
   */
  headers?: {
    [k: string]: string;
  };
}
/**
 * A push over a pattern to set.
 */
export interface PatternPushInput {
  /**
   * Where requests go: https, to a public address, unless the operator allows others. It is kept as a secret.
   */
  url: string;
  /**
   * Requests at a time, at most.
   */
  concurrency?: number;
  /**
   * Time for one request, with its answer.
   */
  timeoutMs?: number;
  /**
   * `entry`: one entry, as a read of the group has it. `batch`: up to `batch_max` of them. `cloudevents`, `cloudevents_binary`, `cloudevents_batch`: events.
   */
  body?: "entry" | "batch" | "cloudevents" | "cloudevents_binary" | "cloudevents_batch";
  /**
   * Entries of a batch, at most.
   */
  batchMax?: number;
  /**
   * Of Standard Webhooks. `v1`: HMAC-SHA256 by the secret. `v1a`: Ed25519 by the gateway; the key is at `/v1/push/jwks.json`.
   */
  signature?: "v1" | "v1a";
  /**
   * Behind nothing but failures for so long, the push is disabled.
   */
  disableAfterMs?: number;
  /**
   * Headers of each request. Their values are kept as secrets.
   */
  headers?: {
    [k: string]: string;
  };
  /**
   * Entries of a stream in each of its turns, by name; 1 for all others.
   */
  weights?: {
    [k: string]: number;
  };
  /**
   * The groups that are created where there is none.
   */
  create?: NewGroups | null;
}
/**
 * A push, and how it goes.
 */
export interface PushSummary {
  /**
   * Its stream; or its pattern, if `match` is there.
   */
  stream: string;
  /**
   * The pattern of a push over one.
   */
  match?: string;
  /**
   * Of a push over a pattern.
   */
  weights?: {
    [k: string]: number;
  };
  /**
   * Of a push over a pattern.
   */
  create?: NewGroups | null;
  group: string;
  /**
   * Null: the key is missing that encrypted the secrets.
   */
  url: string | null;
  /**
   * Requests at a time, at most.
   */
  concurrency: number;
  /**
   * Time for one request, with its answer.
   */
  timeoutMs: number;
  /**
   * `entry`: one entry, as a read of the group has it. `batch`: up to `batch_max` of them. `cloudevents`, `cloudevents_binary`, `cloudevents_batch`: events.
   */
  body: "entry" | "batch" | "cloudevents" | "cloudevents_binary" | "cloudevents_batch";
  /**
   * Entries of a batch, at most.
   */
  batchMax: number;
  /**
   * Of Standard Webhooks. `v1`: HMAC-SHA256 by the secret. `v1a`: Ed25519 by the gateway; the key is at `/v1/push/jwks.json`.
   */
  signature: "v1" | "v1a";
  /**
   * Behind nothing but failures for so long, the push is disabled.
   */
  disableAfterMs: number;
  /**
   * Of `headers`; no one is told values.
   */
  headerNames: string[];
  /**
   * `active`. `failing`: nothing but failures, so it is tried with one request now and then. `paused`. `disabled`: it sends nothing until it is resumed. `unreadable`: the key is missing that encrypted its secrets; set it anew.
   */
  state: "active" | "failing" | "paused" | "disabled" | "unreadable";
  failingSinceMs: number | null;
  /**
   * Requests that failed, one after the other.
   */
  failureCount: number;
  disabledAtMs: number | null;
  disabledReason: string | null;
  /**
   * Of the gateway, for `v1a`; null: requests are not signed with it.
   */
  publicKey: string | null;
  /**
   * Until then the secret before this one is good as well.
   */
  previousSecretUntilMs: number | null;
  createdAtMs: number;
  /**
   * Entries that were acknowledged.
   */
  deliveredCount: number;
  /**
   * Requests that were not.
   */
  failedCount: number;
}
/**
 * A page of pushes.
 */
export interface Pushes {
  pushes: PushSummary[];
  /**
   * Pass it as `cursor` for the next page; null: this was the last.
   */
  nextCursor: string | null;
}
/**
 * A read as a consumer of a group over a pattern; every part may be left out.
 */
export interface ReadGroups {
  /**
   * Entries at most.
   */
  limit?: number;
  /**
   * Time to wait if there is nothing.
   */
  waitMs?: number;
  /**
   * First take entries pending with anybody and idle for so long.
   */
  claimIdleMs?: number | null;
  /**
   * New entries need no acknowledgement.
   */
  noAck?: boolean;
  /**
   * Entries the consumer may hold in all of the streams.
   */
  maxPending?: number | null;
  /**
   * Entries of a stream in each of its turns, by name; 1 for all others.
   */
  weights?: {
    [k: string]: number;
  };
  create?: NewGroups | null;
  /**
   * Acknowledge these first.
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
 * The entries for a consumer, each with its stream.
 */
export interface GroupsEntries {
  entries: StreamDelivery[];
  /**
   * Entries this consumer holds now, in all of the streams.
   */
  pending: number;
  /**
   * Whether there is more, and why not.
   */
  state: "live" | "caught_up" | "max_pending" | "key_blocked" | "paused" | "rate_limited" | "closed";
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
  namesBase64?: boolean;
  /**
   * Groups deliver it no sooner than this unix time.
   */
  deliverAtMs?: number;
  /**
   * Groups deliver it no more from this unix time on.
   */
  expiresAtMs?: number;
  /**
   * Number of its deliveries, this one included.
   */
  deliveries: number;
  /**
   * Idle time when it was claimed.
   */
  idleMs: number;
  /**
   * Whom it was taken from.
   */
  claimedFrom?: string;
  /**
   * The error of its last nack that had one.
   */
  lastError?: string;
  stream: string;
}
/**
 * The outcomes for one stream, in the order of its ids.
 */
export interface SettledStream {
  stream: string;
  results: Settled[];
}
/**
 * The outcomes for each stream, in the order of the request.
 */
export interface SettledStreams {
  streams: SettledStream[];
}
/**
 * The entries that are tried again at once.
 */
export interface RetriedPush {
  /**
   * Entries that had to wait after a failure, and are due now.
   */
  entries: number;
}
/**
 * A step of a commit: an object with one of these members.
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
  ifLastId?: string | null;
  /**
   * Create the stream if it is not there.
   */
  createStream?: boolean;
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
  namesBase64?: boolean;
  /**
   * Groups deliver it so much later. Up to 90 days.
   */
  delayMs?: number | null;
  /**
   * Instead: groups deliver it no sooner than this unix time.
   */
  deliverAtMs?: number | null;
  /**
   * Groups deliver it for so long, from now on, and then no more.
   */
  ttlMs?: number | null;
  /**
   * Instead: groups deliver it until this unix time.
   */
  expiresAtMs?: number | null;
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
   * Only if this is the id of the row before the commit.
   */
  ifMatch?: string | null;
  /**
   * Instead: only if there is no such row before the commit.
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
   * Only if this is the id of the row before the commit.
   */
  ifMatch?: string | null;
  /**
   * Instead: only if there is no such row before the commit.
   */
  ifNoneMatch?: "*" | null;
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
  delayMs?: number | null;
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
   * Unix time at which the entry is appended.
   */
  atMs: number;
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
 * What came of each step, in order.
 */
export interface CommitDone {
  results: CommitResult[];
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
  namesBase64?: boolean;
  /**
   * Groups deliver it no sooner than this unix time.
   */
  deliverAtMs?: number;
  /**
   * Groups deliver it no more from this unix time on.
   */
  expiresAtMs?: number;
  /**
   * The value of the key field. One that is no text is written as `base64:` and base64 text, and so is one that is empty or begins with `base64:`.
   */
  key: string;
}
/**
 * Rows of a table, in byte order of their keys.
 */
export interface TableRows {
  rows: Row[];
  /**
   * Pass it as `after_key`, with `as_of`, for the next page; null: this was the last.
   */
  nextAfterKey: string | null;
  /**
   * The rows are as they were when this was the last id of the stream. What comes after it is what changes them.
   */
  asOf: string;
}
/**
 * The entry that changed a row.
 */
export interface RowWritten {
  /**
   * The value of the key field. One that is no text is written as `base64:` and base64 text, and so is one that is empty or begins with `base64:`.
   */
  key: string;
  /**
   * Entry id.
   */
  id: string;
}
/**
 * Why a request was not served. Nothing was changed.
 */
export interface ProblemDetails {
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
  retryAfterMs?: number | null;
  /**
   * The faults, each with its place.
   */
  errors?: ProblemError[] | null;
  /**
   * The stream's last id, where that was the matter.
   */
  lastId?: string | null;
  /**
   * The entry that is too large for its reader, where that was the matter.
   */
  entryId?: string | null;
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
  requestId?: string | null;
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
 * Why a row was not changed: it is not as the request expects it.
 */
export interface RowProblemDetails {
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
  retryAfterMs?: number | null;
  /**
   * The faults, each with its place.
   */
  errors?: ProblemError[] | null;
  /**
   * The stream's last id, where that was the matter.
   */
  lastId?: string | null;
  /**
   * The entry that is too large for its reader, where that was the matter.
   */
  entryId?: string | null;
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
  requestId?: string | null;
  /**
   * The row as it is, if there is one.
   */
  row?: {
    [k: string]: unknown;
  } | null;
}
/**
 * Why a commit did nothing: entries are not pending with its consumer.
 */
export interface FenceProblemDetails {
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
  retryAfterMs?: number | null;
  /**
   * The faults, each with its place.
   */
  errors?: ProblemError[] | null;
  /**
   * The stream's last id, where that was the matter.
   */
  lastId?: string | null;
  /**
   * The entry that is too large for its reader, where that was the matter.
   */
  entryId?: string | null;
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
  requestId?: string | null;
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
