"""All bounds of the engine, each with its reason."""

from __future__ import annotations

U64_MAX = 2**64 - 1
"""Both halves of an entry id are unsigned 64-bit numbers."""

COUNT_MAX = 2**63 - 1
"""Delivery counts and idle times are signed 64-bit numbers. Counting stops at this value."""

CHUNK_ENTRIES_MAX = 100
"""Redis's stream-node-max-entries. More than 100 entries in a chunk compress hardly better."""

CHUNK_BYTES_MAX = 4096
"""Redis's stream-node-max-bytes: how much one look-up has to unpack at most."""

ENTRY_BYTES_MAX = 2**30
"""Redis refuses an entry whose names and values have more than 1 GiB together."""

ENTRY_FIELDS_MAX = 10_000
"""Fields of one entry, about as many as a command has words for. Redis has no such bound, but what
is done with an entry is done in one step: to show 10,000 fields that are not text takes 13 ms."""

CHUNK_PARTS_MIN = 128
"""An entry with so many names and values counts them for its chunk, even if they are empty. A
hundred entries with fewer are unpacked in about a millisecond."""

BACKOFFS_MAX = 32
"""Delays that a policy has. With doubled ones from a second on, the last one is 68 years."""

TRIM_CHUNKS_DEFAULT = 100
"""Redis's default LIMIT of an approximate trim: one hundred full nodes."""

TRIM_ENTRIES_MAX = 1_000_000
"""Redis's greatest LIMIT of one approximate trim, so that one call does not block the others for
long."""

DEAD_SCAN_MAX = 500
"""Pending entries that are searched for dead letters before a read. Later searches find the
rest."""

DEAD_LETTERS_AT_ONCE_MAX = 50
"""Dead letters made before a read. Each one is looked up, appended, recorded and acknowledged,
which takes 50 to 200 µs. Housekeeping makes the rest, the same number at a time."""

NACK_ERROR_LENGTH_MAX = 1_000
"""Characters of the error that a nack carries: a line that says what went wrong, not a trace."""

ERRORS_MAX = 10_000
"""Errors kept with the pending entries of one group. Each one takes up to 4 kB; the oldest go."""

REDRIVE_SCAN_MAX = 100_000
"""Dead letters that one redrive looks at. Some may belong to other groups."""

REDRIVEN_AT_ONCE_MAX = 100
"""Dead letters sent back before other requests run. Each one is looked up twice and appended."""

BLOCK_BYTES_MAX = 4 * 2**20
"""The approximate size of one write: large enough to be efficient, small enough to be quick."""

PART_BYTES_MAX = 8 * 2**20
"""A part of the journal, as it goes to a bucket, has so many bytes; one block may have more."""

SEGMENT_BYTES_MAX = 64 * 2**20
"""When a segment of the journal is larger than this, a new segment begins."""

SNAPSHOT_ITEMS_MAX = 4096
"""Items in one block of a snapshot."""

WRITERS_MAX = 10_000
"""Writers whose last batch is remembered. Each one takes a few hundred bytes."""

WRITER_SILENT_MS_MAX = 90 * 86_400_000
"""A writer that has committed nothing for 90 days is forgotten."""

FORGOTTEN_KEYS_MS = 200
"""Length of a period. Idempotency keys of one period are forgotten before other requests run. There
are no more of them than could be created in this time."""

STREAMS_MAX = 10_000_000
"""Streams. Each one takes about a kilobyte, so memory is usually full before this bound is
reached."""

ATTRIBUTES_MAX = 10_000
"""Attributes of a stream."""

ATTRIBUTES_BYTES_MAX = 2**20
"""Names and values of the attributes of a stream together: a snapshot has them in one item."""

ATTRIBUTE_BYTES = 180
"""Memory of an attribute besides its name and its value."""

COMPILED_BYTES_MAX = 8 * 2**20
"""Texts of the schemas that are kept compiled, those used last."""

CHECKED_AT_ONCE_US = 2_000
"""Microseconds that a check by a schema may take within a decision; longer ones have turns."""

SCHEDULES_MAX = 10_000
"""Schedules. Each one takes about 2 kB besides its fields; if all are due at one moment, the last
one runs some seconds later."""

SCHEDULE_FIELDS_MAX, SCHEDULE_BYTES_MAX = 1_000, 16 * 1024
"""Fields of a schedule, and bytes of their names and values. All schedules are in memory."""

FORMER_STREAMS_MAX = 10_000
"""Deleted streams whose end is remembered, for those who go on reading when the name is used again.
Those that were deleted first are forgotten first."""

SCHEDULES_AT_ONCE_MAX = 1_000
"""Schedules that a list looks at before other requests run."""

GROUPS_MAX = 10_000
"""Groups of one stream. Each one takes 1.5 to 5.5 kB, and deleting an entry looks into every
group."""

CONSUMERS_MAX = 100_000
"""Consumers of one group. Each one takes 750 bytes, and a summary of pending entries visits all."""

PRODUCERS_MAX = 10_000
"""Producers of idempotency keys of one stream. Forgetting old keys visits all producers."""

IDEMPOTENCY_WINDOW_MS_MIN = 1_000
"""Redis's smallest stream-idmp-duration."""

IDEMPOTENCY_WINDOW_MS_MAX = 86_400_000
"""Redis's greatest stream-idmp-duration: one day."""

IDEMPOTENCY_KEYS_MAX = 10_000
"""Redis's greatest stream-idmp-maxsize: the remembered keys of one producer."""

WAITERS_MAX = 100_000
"""Reads blocked at the same time. Each one takes about a kilobyte."""

LOOKUPS_AT_ONCE_MAX = 64
"""Entries looked up by id before other requests run. Each look-up may unpack a chunk, which takes
about 50 µs. This is not more than `CACHED_CHUNKS_MAX`, because applying a decision looks up the
same entries again."""

SETTLED_AT_ONCE_MAX = 2_000
"""Pending entries acknowledged or given back before other requests run. Each one takes 3 µs."""

PACKED_COUNT_MIN = 4_000
"""A batch with at least this many entries is packed before it is appended, while other requests
run."""

PACKED_BYTES_MIN = 256 * 1024
"""The same for bytes of names and values, because large entries take as long as many. One turn of
the loop packs about this much."""

PACKED_PARTS_MIN = 50_000
"""The same for names and values, which may all be empty. Each one takes about 100 ns."""

CHUNKS_AT_ONCE_MAX = 100
"""Chunks of entries that came encoded, packed before other requests run. Each one takes 17 µs."""

PACKED_AT_ONCE_MAX = 500
"""Entries packed before other requests run. Each one takes about 5 µs."""

COMMIT_STEPS_MAX, COMMIT_ITEMS_MAX = 100, 500
"""Steps of a commit, and entries and ids of all of them together. Each takes up to 20 µs: a row
that is expected, an entry of a table, a delivery that is given back."""

COMMIT_STREAMS_MAX = 10_000
"""Streams of one batch. Each one takes 20 µs, and all of them are written in one step."""

COMPRESSED_BYTES_MAX = 128 * 1024
"""A larger chunk is stored uncompressed: compressing 16 MB takes 50 ms."""

SAMPLED_MAX = 16
"""When memory is full, the oldest of this many streams is trimmed."""

TRIMMED_AT_ONCE = 1_000
"""Entries that are trimmed from this stream at a time."""

MAKING_ROOM_MAX = 64
"""Repeats of such a trim for one request. If memory is still full, an append is
refused."""

RECENT_COUNT_MAX = 64
"""Reads that are remembered for readers that follow the same stream. A stream needs three of
them."""

RECENT_BYTES_MAX = 4 * 2**20
"""Bytes of names and values in these reads together, or of their text. A single read may exceed
it."""

FREED_AT_ONCE_MAX = 2_000
"""Objects freed before other requests run. Each one takes about 200 ns."""

DELETED_AT_ONCE_MAX = 500
"""Streams deleted before other requests run. Each one takes about 8 µs."""

DUMPED_MAX = 50_000
"""Chunks, consumers and pending entries together that one dump has. Each one takes a quarter of a
microsecond at the moment of the dump, and longer afterwards."""

COPIED_MAX = 5_000
"""Chunks, groups, consumers, pending entries and keys of a stream together that one copy has. Each
one takes about 4 µs."""

RESTORED_AT_ONCE_MAX = 250
"""Consumers or pending entries made of a dump, or dumped, before other requests run. Each one takes
2 to 10 µs, most where the times of deliveries do not ascend; a chunk takes ten times as long."""

UNPACKED_BYTES_MAX = 128 * 2**20
"""Memory of all payloads that are being restored in a process together, the payloads themselves
included while they wait. A payload may have 16 MiB, and unpacked it may have 88 times as much."""

UNPACKED_ELEMENTS_MAX = 2**21
"""Elements of these payloads: names, values and numbers of entries, pending entries, consumers,
groups, keys. Each one takes half a microsecond to two, in a thread."""

UNPACKING_MAX = 1_000
"""Payloads that wait until they are packed or unpacked."""

CUT_CHUNKS_MAX = 10_000
"""Chunks that one part of a trim looks at. Each one takes a third of a microsecond."""

CLOCK_STEP_MS_MIN = 1_000
"""If the wall clock differs from the time that has passed by this much, it was set. NTP adjusts a
clock in small steps, by half a millisecond per second."""

TURN_MS_MAX = 5
"""Long work, all of it together, pauses after this time to let other tasks of the loop run."""

BEGUN_AT_ONCE_MAX = 16
"""First parts of long work that are woken in one turn of the loop."""

GATHERED_AT_ONCE_MAX = 2_000
"""Requests of a transaction that are gathered, or whose replies are given out, before other
requests run. Each one takes half a microsecond."""

IN_ORDER_MS_MAX = 4
"""A pipeline of requests is answered after this time, and its next part goes on then."""

APPENDED_AT_ONCE_MAX = 100
"""Plain appends of a pipeline that are decided together."""

HOUSEKEEPING_MS_MAX = 100
"""Time in each second for removing what is too old, and as much for policies: a tenth each."""

HOUSEKEEPING_PIECES_MAX = 100
"""Steps of housekeeping in one turn of the loop. Each step may wake blocked reads."""

EXPIRED_AT_ONCE_MAX = 100
"""Expired streams that are deleted before a request is decided; the next turns delete the others.
Each one takes about 10 µs."""

CONSUMERS_AT_ONCE_MAX = 500
"""Consumers looked at before other requests run. Each one takes half a microsecond, or 20 µs if it
is deleted."""

SERVED_AT_ONCE_MAX = 100
"""Blocked reads that are run again in one turn. Each one that is served then takes its caller about
100 µs."""

RANGE_CHUNKS_MAX = 2_000
"""Chunks that one read of packed entries looks at. Each one takes about a microsecond."""

RANGE_REPACKED_MAX = 2_000
"""Entries that such a read unpacks, because not all of their chunk are alive or wanted. Each one
takes about a microsecond."""

XREAD_MAX = 5_000
"""Entries that one XREAD returns as a whole. Each one takes 2.5 µs. A client that wants more sends
another XREAD; or it speaks RESP, and gets them page by page."""

PAGE_ENTRIES = 1_000
"""Entries of a page of an open range, about: chunks come as a whole. Each one takes 1 µs."""

PAGE_BYTES = 256 * 1024
"""The same for bytes of names and values."""

SYNC_BYTES = 4 * 2**20
"""A large file is forced to disk in portions of this size (Redis: the same)."""

LOST_MAX = 1_000
"""Ranges of damaged entries that a stream remembers; more become one."""

EXTENT_FILE_BYTES_MAX = 256 * 2**20
"""An extent file is followed by another one at this size."""

HOT_BYTES_MAX = 16 * 2**20
"""Memory of all streams together after a rewrite, besides open chunks: it freezes the rest."""

CLEANED_BYTES_MAX = 64 * 2**20
"""Bytes of mostly dead files that a rewrite writes anew, about."""

EXTENT_BYTES = 64 * 1024
"""An extent has chunks of so many bytes, or one more chunk: they are read together."""

FREEZING_MS_MAX = 10_000
"""A request that adds waits so long for a rewrite to make room in memory."""

CACHED_SHARE = 16
"""A sixteenth of the bound on memory is for extents that were read, or frozen, last."""

CACHED_BYTES = 256 * 2**20
"""The same, where memory has no bound."""

COLD_READS_MAX = 16
"""Requests that read extents at the same time, and extents that are read ahead of them."""

PINNED_BYTES_MAX = 8 * 2**20
"""A request holds extents of so many bytes while it is decided. One at a time may hold more."""

LARGE_CHUNK_BYTES = 64 * 1024
"""The newest chunk of a stream does not stay hot if it is full and as large as this."""

MISSING_BYTES_MAX = 4 * 2**20
"""A request asks for extents of so many bytes at a time, or for one."""

OPEN_RANGES_MAX = 10_000
"""Ranges that are read page by page at the same time."""

OPEN_CHUNKS_MAX = 8_000_000
"""Chunks in all of these ranges. Each one takes 8 bytes."""

RANGE_IDLE_MS_MAX = 600_000
"""A range of which nothing was read for so long is closed. A client that takes nothing is cut off
long before."""

HELD_BYTES_MAX = 256 * 2**20
"""Memory of trimmed or deleted entries in open ranges."""

READ_PARTS_MAX = 100_000
"""Names and values in one read that is bounded in bytes. Unpacking one takes about 150 ns, however
short it is."""

CLAIM_SCAN_MAX = 2_000
"""Pending entries that a read looks at when it claims. Some cannot be claimed: those of its own
consumer, those about to become dead letters, and those without a stream entry. This takes 1 ms."""

AUTOCLAIM_SCAN_FACTOR = 10
"""XAUTOCLAIM looks at ten pending entries for each entry that it may return, then returns a
cursor."""

TAKEOVER_IDS_MAX = 20_000
"""Ids in the takeover feed of a consumer that are not read yet: as many as one command can claim.
Each one takes about 100 bytes."""

CACHED_CHUNKS_MAX = 64
"""Sealed chunks kept unpacked for all streams together, for readers that read the same entries.
With more, a long scan exceeds the processor's cache and becomes a tenth slower."""

CACHED_CHUNK_BYTES_MAX = 16 * 1024
"""A chunk that is larger when it is no longer compressed is unpacked each time, because it has few,
large entries."""

COMMAND_NAME_BYTES_MAX = 1024
"""Length of names and keys in commands. Redis allows 512 MB, but waiters and remembered keys keep a
copy."""

IDEMPOTENCY_ID_BYTES_MAX = 64 * 1024
"""Length of a producer and of an idempotency key in commands. Redis has no bound but that of words;
each key that is remembered counts in the memory of the streams."""

COMMAND_WORDS_MAX = 20_000
"""Words of one command. Parsing this many ids takes 15 ms."""

TRANSACTION_COMMANDS_MAX = 12_500
"""Commands of one transaction. Each one costs 2 at least of what all may cost together."""

TRANSACTION_WORDS_MAX = 200_000
"""Words of all commands of a transaction. Each one takes 60 bytes, besides what is in it."""

TRANSACTION_COST_MAX = 25_000
"""Cost of the requests of a transaction together, in microseconds, about: nothing else runs
in between. 10,000 short appends are within, and so is any request alone. `transaction_cost.py`."""

QUEUES_MAX = 1_000
"""Streams that one read command names. While it is blocked, it waits in as many queues."""

GROUP_READ_MAX = 2_000
"""Entries of one stream that one group read returns. Each one takes 3.5 to 10 µs. A consumer that
wants more reads again."""

AUTOCLAIM_MAX = 1_000
"""Entries that one XAUTOCLAIM claims. Each one takes 6 µs. The cursor in the reply tells where to
go on."""

AUTOCLAIM_SCAN_MAX = 5_000
"""Pending entries that one XAUTOCLAIM looks at. Each one is looked up in its chunk."""

PENDING_SCAN_MAX = 5_000
"""Pending entries that a list looks at before other requests run, and that one XPENDING returns.
Looking at one takes 1 µs, returning one takes 3 µs."""

DESCRIBED_MAX = 5_000
"""Things that one reply describes: entries, pending entries, groups and consumers in XINFO and in
the details of a stream, consumers in XPENDING. Each one takes about 3 µs."""

LISTED_AT_ONCE_MAX = 1_000
"""Streams, groups or consumers listed before other requests run. Each one takes 2 µs."""

OBSERVED_AT_ONCE_MAX = 500
"""Streams measured before other requests run, with all their groups. Each one takes 5 µs."""

NAME_RANGES_AT_ONCE_MAX = 1_000
"""Names and prefixes of a filter looked up before other requests run. Each one takes 7 µs among a
million streams."""

SPLITS_AT_ONCE_MAX = 64
"""Cuts of a range before other requests run. Each cut may unpack a chunk."""

RATE_MAX = 1_000_000
"""Entries a second, and at once, that a group's rate allows at most."""

KEY_TURNS_MAX = 1_000
"""Pending entries of a key at once, at most, if their number is bounded."""

KEY_BYTES_MAX = 64
"""Bytes of a key that are kept in memory; of a longer one a digest is."""

KEY_AHEAD_MAX = 100_000
"""Entries that a group holds back for their keys, at most."""

AHEAD_MAX = 100_000_000
"""Entries that a fair group indexes by key, at most. Each takes 17 bytes, and each key 330."""

AHEAD_DEFAULT = 10_000_000
"""The same, unless the policy says it."""

AHEAD_AT_ONCE_MAX = 1_000
"""Entries that are indexed together, for all groups of a stream. Each one takes 2 to 4 µs."""

ROW_KEY_BYTES_MAX = 1_024
"""Bytes of the key of a row; an entry with a longer one is in no table."""

TABLE_CHANGES_MAX = 100_000
"""Changes of a table's rows that are kept for those who walk over an earlier state."""

ALL_TABLE_CHANGES_MAX = 500_000
"""The same of all tables together. Each takes some 500 bytes."""

TABLE_WALKS_MAX = 1_000
"""States of a table that are walked over at the same time; the oldest walk has to begin again."""

COMPACT_AFTER_MS = 3_600_000
"""How long superseded entries stay unless a stream says it."""

TOMBSTONE_MS = 86_400_000
"""How long entries that removed a row stay unless a stream says it."""

COMPACTED_PARTS_MAX = 100
"""Parts of a pass over a stream that is compacted, in one round of housekeeping."""

COMPACT_PAUSE_MS = 10_000
"""Pause between two passes over a stream that is compacted."""

LONG_COMPACT_PAUSE_MS = 600_000
"""The same behind a pass that has removed less than a tenth of what it looked at."""

TABLE_WALK_MS = 60_000
"""How long a walk over a table may rest between two of its pages."""

CONFLATE_MS_MAX = 10_000
"""How long changes of a table are held back at most, so that only the newest ones are sent."""

ROWS_AT_ONCE_MAX = 500
"""Entries that are indexed by a table together, and rows of it that are looked at. Each takes up to
20 µs."""

ROW_BLOCKS_AT_ONCE = 8
"""Blocks of rows that are looked through for those that were trimmed. Each has up to 128 rows, and
to forget one takes up to 15 µs."""

LONGEST_WAITS = 10
"""Keys of all fair groups whose waits are measured."""

KEYS_SCANNED_MAX = 100_000
"""Keys of a fair group that a list of them looks at."""

KEYS_SCANNED_AT_ONCE = 500
"""Each takes 5 to 10 µs."""

WEIGHTS_MAX = 100
"""Keys that a policy gives a weight."""

WEIGHT_MAX = 1_000
"""Entries of a key in a row, at most."""

KEY_AHEAD_DEFAULT = 10_000
"""The same, unless the policy says it."""

PASSED_AT_ONCE_MAX = 2_000
"""Entries that a group read looks at, to pass by those that its filters do not let through, before
other requests run. Each one takes 1 to 3 µs."""

HELD_AT_ONCE_MAX = 1_000
"""Entries that a group read holds back for their keys, or some more, before other requests run; and
held ones that it delivers. Each one takes 5 to 15 µs."""

CONDITIONS_PER_PASS = 4
"""Conditions of a filter that take about as long as to look at an entry at all."""

PASSED_BYTES_MAX = 4 * 2**20
"""Bytes of names and values of these entries."""

LOOKED_AT_ONCE_MAX = 16_000
"""Conditions that a read with a filter asks about before other requests run: some 2,000 entries. A
condition takes 0.1 to 0.25 µs, and an entry as long as eight of them."""

LOOKED_BYTES_MAX = 2**20
"""Bytes of names and values of these entries."""

CONDITIONS_KEPT_MAX = 50_000
"""Conditions of the filters that are kept ready, whoever uses them: each takes half a kilobyte. A
filter with 64 of them takes half a millisecond to be made ready again."""

FILTER_BYTES_MAX = 4096
"""Bytes of a filter's JSON."""

NUMBER_LENGTH_MAX = 1_000
"""Characters of a value that a filter takes for a number. It would take 50 ms to read one of 15 MB,
for each condition on it."""

FILTER_NODES_MAX = 64
"""Conditions in a filter. Each one takes about 0.1 µs for each entry that it is asked about."""

DELAY_MS_MAX = 90 * 86_400_000
"""The longest delay of an entry: 90 days."""

TIMED_MAX = 1_000_000
"""Entries of a stream with a delay or a deadline. Each one takes half a kilobyte, and 340 bytes in
each group that has passed it by until it is due."""

TIMED_AT_ONCE_MAX = 2_500
"""Entries of one append or batch that have a delay or a deadline. All get them in one step, which
takes 5 µs for each."""

EXPIRED_AT_ONCE_MAX = 250
"""Pending entries that are settled before a read because their deadline is over. Each one takes
some microseconds; housekeeping finds the rest."""

FORGOTTEN_TIMES_MAX = 500
"""Times of entries that are gone, forgotten by one append or trim. Each one takes 2 µs."""

SPARE_DESCRIPTORS = 12
"""File descriptors kept in reserve: for the start of a rewrite, and a file for each disk thread."""

RESERVE_BYTES_MAX = 16 * 2**20
"""Disk space reserved in a file, for deletes, acks and a rewrite until they have made room."""

PATTERN_BYTES_MAX = 256
"""Length of a pattern that streams are followed by. At worst a match takes a name of a thousand
bytes 2 ms."""

PATTERN_NOTES_MAX = 10_000
"""Notes of streams with new entries for those who follow a pattern. Their names are sorted in 3 ms.
With more of them a follower looks at all names."""

NOTES_MAX = 1_000_000
"""Notes of all patterns together. One takes about 200 bytes."""

CONCERNED_MAX = 64
"""Patterns that an append tells at once. More of them are told in turns of the event loop."""

AHEAD_STREAMS_MAX = 16
"""Streams that a cursor of a pattern lists, as they were read beyond its moment."""

FOLLOWERS_MAX = 10_000
"""Followers of patterns that are kept while they do not read, the last that have read."""

FOLLOWER_IDLE_S = 30.0
"""Time after which one of these is forgotten. It looks at all names then, if it comes back."""

CONCERNED_NAMES_MAX = 65_536
"""Names of streams in the table of whom their appends concern."""

LATE_STREAM_NOTES_MAX = 64
LATE_NOTES_MAX = 100_000
"""Notes of late appends of one stream, and of all together. One takes 100 bytes."""

PATTERN_GROUPS_MAX = 64
"""Groups over patterns that are in use, or were so a moment ago. Each takes about 100 bytes for
every stream that has something for it."""

PATTERN_GROUP_IDLE_S = 300.0
"""Time after which one that nobody reads is forgotten. The next read looks at all names."""

WEIGHTS_MAX = 100
"""Streams to which a read of a group over a pattern gives weights, and the greatest weight."""
