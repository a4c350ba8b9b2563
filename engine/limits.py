"""Every bound of the engine, with its reason."""

from __future__ import annotations

U64_MAX = 2**64 - 1
"""Both halves of an entry id are unsigned 64-bit numbers."""

COUNT_MAX = 2**63 - 1
"""Delivery counts and idle times are signed 64-bit numbers; counting stops there."""

CHUNK_ENTRIES_MAX = 100
"""Redis's stream-node-max-entries: beyond 100 neighbours packing gains nearly nothing."""

CHUNK_BYTES_MAX = 4096
"""Redis's stream-node-max-bytes: what one lookup has to unpack at most."""

ENTRY_BYTES_MAX = 2**30
"""Redis refuses an entry whose names and values exceed 1 GiB together."""

ENTRY_FIELDS_MAX = 65_536
"""Fields of one entry. Redis has no such bound: to look at four million holds up everyone."""

TRIM_CHUNKS_DEFAULT = 100
"""Redis's default LIMIT of an approximate trim is a hundred full nodes."""

TRIM_ENTRIES_MAX = 1_000_000
"""Redis's cap on the LIMIT of one approximate trim, so that one call cannot stall the rest."""

DEAD_SCAN_MAX = 500
"""Pending entries looked at for dead letters before a read: the rest is found later."""

DEAD_LETTERS_AT_ONCE_MAX = 50
"""Dead letters made before a read: each is looked up, appended, recorded and settled, some 50 µs
to 200. Housekeeping makes the rest, as many at a time."""

REDRIVE_SCAN_MAX = 100_000
"""Dead letters looked at in one redrive: those of other groups may be among them."""

REDRIVEN_AT_ONCE_MAX = 100
"""Dead letters sent back before others have their turn: each is looked up twice and appended."""

BLOCK_BYTES_MAX = 4 * 2**20
"""What one write takes down, about: large enough to be cheap, small enough not to be waited for."""

SEGMENT_BYTES_MAX = 64 * 2**20
"""A segment of the journal that is larger is followed by another."""

SNAPSHOT_ITEMS_MAX = 4096
"""Items in one block of a snapshot."""

WRITERS_MAX = 10_000
"""Writers whose last batch is remembered; each costs a few hundred bytes."""

WRITER_SILENT_MS_MAX = 90 * 86_400_000
"""A writer that commits nothing for a quarter of a year is not coming back."""

FORGOTTEN_KEYS_MS = 200
"""Idempotency keys that were used in so long a time are forgotten before others have their turn:
as many as could be made in it."""

STREAMS_MAX = 10_000_000
"""Streams: each costs about a kilobyte, so memory is full before, unless there is much of it."""

GROUPS_MAX = 10_000
"""Groups of one stream: each costs 5.5 kB, and an entry that is deleted is looked for in each."""

CONSUMERS_MAX = 100_000
"""Consumers of one group: each costs 750 bytes, and a summary of what is pending sees all."""

PRODUCERS_MAX = 10_000
"""Producers of idempotency keys of one stream: those whose time is over are looked for in all."""

IDEMPOTENCY_WINDOW_MS_MIN = 1_000
"""Redis's least stream-idmp-duration."""

IDEMPOTENCY_WINDOW_MS_MAX = 86_400_000
"""Redis's greatest stream-idmp-duration: a day."""

IDEMPOTENCY_KEYS_MAX = 10_000
"""Redis's greatest stream-idmp-maxsize: keys remembered of one producer."""

WAITERS_MAX = 100_000
"""Blocked reads at once; each costs about a kilobyte."""

LOOKUPS_AT_ONCE_MAX = 64
"""Entries looked up by id before others have their turn: each may unpack a chunk, some 50 µs. Not
more than are kept unpacked, as what was decided about is looked up again when it is applied."""

SETTLED_AT_ONCE_MAX = 2_000
"""Pending entries acknowledged or given back before others have their turn: 3 µs each."""

PACKED_COUNT_MIN = 4_000
"""Entries of a batch from which on it is packed before it is appended, with others in between."""

PACKED_BYTES_MIN = 256 * 1024
"""The same for names and values, which cost as much by their size: packed in one turn, about."""

PACKED_PART_MAX = 500
"""Entries packed before others have their turn: each costs some 5 µs."""

COMMIT_STREAMS_MAX = 10_000
"""Streams of one batch: each costs 20 µs in the one step in which all of them get theirs."""

COMPRESSED_BYTES_MAX = 128 * 1024
"""A chunk that is larger is kept as it is: to compress 16 MB takes 50 ms."""

SAMPLED_MAX = 16
"""Streams of which the oldest gives entries when memory is full."""

TRIMMED_AT_ONCE = 1_000
"""Entries that it gives then."""

MAKING_ROOM_MAX = 64
"""How often that is done for one append; if it does not help, the append is refused."""

RECENT_COUNT_MAX = 64
"""Reads that are remembered for those who follow streams side by side: three a stream."""

RECENT_BYTES_MAX = 4 * 2**20
"""Names and values of these reads together, or what they are as text; one may have more."""

FREED_AT_ONCE_MAX = 2_000
"""Objects freed before others have their turn: each costs some 200 ns."""

DELETED_AT_ONCE_MAX = 500
"""Streams deleted before others have their turn: each costs some 8 µs."""

CUT_CHUNKS_MAX = 10_000
"""Chunks that one step of a trim looks at: each costs a third of a microsecond."""

CLOCK_STEP_MS_MIN = 1_000
"""What the wall clock differs at once by from the time that has passed, if it was set: adjusting
it bit by bit (NTP) makes half a millisecond in a second."""

TURN_MS_MAX = 5
"""Work that goes on in later turns of the loop lets others in after so long."""

HOUSEKEEPING_MS_MAX = 100
"""Of each second, for what goes by age and for what goes by policy: a tenth."""

HOUSEKEEPING_PIECES_MAX = 100
"""Pieces of housekeeping in one turn of the loop: each of them answers somebody, perhaps."""

EXPIRED_AT_ONCE_MAX = 100
"""Streams whose time is over that go before a request is looked at, the others in the next turns:
some 10 µs each."""

CONSUMERS_AT_ONCE_MAX = 500
"""Consumers looked at before others have their turn: half a microsecond each, 20 if it goes."""

SERVED_AT_ONCE_MAX = 100
"""Blocked reads re-run in one turn: each that is woken costs its caller some 100 µs in the next."""

XREAD_MAX = 5_000
"""Entries that one XREAD hands out: each costs 2.5 µs, and who wants more asks again."""

READ_PARTS_MAX = 100_000
"""Names and values of one read that is bounded in size: however short they are, each costs some
150 ns to unpack."""

CLAIM_SCAN_MAX = 2_000
"""Pending entries a read looks at for what it may claim: its consumer's own, those about to be dead
letters and those whose entry is gone may be in front. 1 ms."""

AUTOCLAIM_SCAN_FACTOR = 10
"""XAUTOCLAIM looks at ten pending entries for each it may return, then gives a cursor."""

TAKEOVER_IDS_MAX = 20_000
"""Ids taken over from a consumer that are kept for who is to tell it: as many as one command takes.
Each costs some 100 bytes while it waits."""

CACHED_CHUNKS_MAX = 64
"""Sealed chunks kept unpacked, shared by all streams: what readers near each other touch. With
more, a long scan leaves the processor's cache and is a tenth slower."""

CACHED_CHUNK_BYTES_MAX = 16 * 1024
"""A packed chunk larger than this is unpacked each time: its entries are large, not many."""

COMMAND_NAME_BYTES_MAX = 1024
"""Names and keys in commands; Redis takes 512 MB. What waits on a name or remembers it holds it."""

COMMAND_WORDS_MAX = 20_000
"""Words of one command: to read as many ids takes 15 ms."""

TRANSACTION_COMMANDS_MAX = 1_000
"""Commands of one transaction: nothing comes between them, and each takes some 15 µs at least."""

QUEUES_MAX = 1_000
"""Streams of one read by a command: while it is blocked it stands in as many queues."""

GROUP_READ_MAX = 2_000
"""Entries of one stream that one group read hands out: each costs 3.5 µs to 10, and who wants more
asks again."""

AUTOCLAIM_MAX = 1_000
"""Entries that one XAUTOCLAIM takes over: each costs 6 µs, and its cursor says where to go on."""

AUTOCLAIM_SCAN_MAX = 5_000
"""Pending entries that one XAUTOCLAIM looks at, each in its chunk."""

PENDING_SCAN_MAX = 5_000
"""Pending entries that a list of them looks at before others have their turn, and that XPENDING
tells of at once: 1 µs to look at one, 3 µs to tell of it."""

DESCRIBED_MAX = 5_000
"""Entries, pending entries, groups and consumers in one answer of XINFO, and what is told of the
groups of a stream in one answer: each costs some 3 µs."""

LISTED_AT_ONCE_MAX = 1_000
"""Streams, groups and consumers told of before others have their turn: each costs 2 µs."""

SPLITS_AT_ONCE_MAX = 64
"""Cuts of a range made before others have their turn: each may unpack a chunk."""

SPARE_DESCRIPTORS = 12
"""Kept open for nothing: what a rewrite takes to begin, and a file for each thread of the disk."""

ENGINE_DESCRIPTORS = 32
"""What the engine may have open at once, spare ones included: who bounds connections by the number
of descriptors leaves it so many."""

RESERVE_BYTES_MAX = 16 * 2**20
"""Disk space kept in a file: what deletes, acks and a rewrite need until they have made room."""
