//! Bounds on everything that comes from the wire or from a file written by another run.

use icdc_units::Span;

/// Silence after which a TCP connection is given up. Ends that have nothing to send transmit
/// keepalive messages several times within it.
pub const DEAD_AFTER: Span = Span::from_secs(15);
/// Size of a block in bytes: the unit of transfer, hashing, journal and Direct I/O. A power of two
/// of BLAKE3 chunks, so that every block is a subtree of the file's hash tree.
pub const BLOCK_SIZE: usize = 4 << 20;
/// Length of a leaf in bytes: the unit in which a block is compared with that of another file.
pub const LEAF_SIZE: usize = 64 << 10;
/// Most blocks whose leaves are described in one message.
pub const MAX_BASIS_BLOCKS: usize = 16;
/// Most chunks of bases that are described for one file.
pub const MAX_CHUNKS: u32 = 1 << 20;
/// Most chunks in one message.
pub const MAX_CHUNKS_TOLD: usize = 4096;
const _: () = assert!(MAX_CHUNKS_TOLD * (5 + 16) < MAX_HEAD / 2);
/// Most parts of one block that are copied from bases: what the shortest chunks fill.
pub const MAX_COPIES: usize = 1024;
/// Most files and directories that are named as bases of one copy.
pub const MAX_BASES: usize = 20;
/// Size of a part of a block in bytes; the last blocks of a session travel in parts, and so do those of a short one over a
/// long path: a file of 1 MB has 31, so that 15 connections get about as much each.
pub const PART_SIZE: usize = 32 << 10;
/// Most parts of a block.
pub const MAX_PARTS: usize = BLOCK_SIZE.div_ceil(PART_SIZE);
/// Largest head of a frame (a message without its payload), in bytes.
pub const MAX_HEAD: usize = 1 << 20;
/// Largest payload of a frame, in bytes.
pub const MAX_PAYLOAD: usize = BLOCK_SIZE;
/// Largest file that travels in a pack, in bytes.
pub const PACK_FILE_LIMIT: u64 = 256 << 10;
/// Most files in one pack.
pub const MAX_PACK_ITEMS: usize = 2048;
/// Most entries in one message.
pub const MAX_ENTRIES: usize = 2048;
/// Most entries that may be announced and not yet done, not counting directories that are open: of a
/// tree that is equal, as many are compared in a round trip.
pub const MAX_PENDING: usize = 128 << 10;
/// Most bytes of paths and extended attributes of the entries that are pending.
pub const MAX_PENDING_BYTES: usize = 256 << 20;
/// Longest name of one path component, in bytes (`NAME_MAX`).
pub const MAX_NAME: usize = 255;
/// Longest target of a symbolic link and longest path, in bytes (`PATH_MAX` less the NUL).
pub const MAX_PATH: usize = 4095;
/// Deepest nesting of directories. Each level down to the deepest keeps a descriptor and its path.
pub const MAX_DEPTH: usize = 4096;
/// Most bytes of the paths of all directories from a source down to the deepest one.
pub const MAX_LEVEL_PATHS: usize = 160 << 20;
/// Most bytes of extended attributes of one entry.
pub const MAX_XATTR_BYTES: usize = 128 << 10;
/// Most files with several names whose further names travel as links in one run; those of others
/// travel as files of their own. A hash table of 2^20 slots holds as many.
pub const MAX_LINKED: usize = 900_000;
/// Most bytes that a receiver keeps of the names of such files, and of the paths of the directories
/// that these are in.
pub const MAX_LINKED_BYTES: usize = 128 << 20;
/// Most data ranges in one block; closer ones are joined.
pub const MAX_RANGES: usize = 256;
/// Most chaining values in one `Held` message.
pub const MAX_HELD: usize = 16 << 10;
/// Largest file in bytes: block numbers are 32 bits and offsets must fit `off_t`.
pub const MAX_FILE_SIZE: u64 = (u32::MAX as u64) * (BLOCK_SIZE as u64);
/// Most sources of one run: what 2 MiB of arguments can name, the most of a process by default, at
/// 16 bytes each.
pub const MAX_SOURCES: usize = 128 << 10;
/// Most bytes of the paths of sources that are asked of a far end, which travel in one head.
pub const MAX_ASKED_BYTES: usize = MAX_HEAD - (64 << 10);
/// Longest text for people in a message, in bytes.
pub const MAX_TEXT: usize = 4096;
/// Most bytes of zeros in holes that are hashed for the sake of the standard digest.
pub const MAX_HASHED_HOLES: u64 = 16 << 30;
/// Most rules over the paths of one copy.
pub const MAX_RULES: usize = 16 << 10;
/// Most bytes of the patterns of these rules, with 4 more for each.
pub const MAX_RULE_BYTES: usize = 256 << 10;
/// Most connections of one run.
pub const MAX_STREAMS: u8 = 64;
/// Maximum number of reference directories of a copy.
pub const MAX_LINK_DESTS: usize = 20;
/// Most directories outside of the destination that links there may lead into.
pub const MAX_LINK_TARGETS: usize = 20;
/// Most changes of modes in one copy.
pub const MAX_MODE_CHANGES: usize = 64;
/// Longest name of a congestion control, in bytes (the kernel's `TCP_CA_NAME_MAX` less the NUL).
pub const MAX_CONGESTION_NAME: usize = 15;
/// Most addresses that a starting end may name.
pub const MAX_ADDRESSES: usize = 16;
/// Longest host name or address, in bytes.
pub const MAX_HOST: usize = 255;
/// Largest ring (blocks of memory between the receiver's sockets and its disk) that an end may ask
/// of another, in bytes.
pub const MAX_RING_BYTES: u64 = 64 << 30;
/// Least length of a copy of zeros without disks, in bytes: smaller files are written whole.
pub const MIN_DISKLESS_BYTES: u64 = BLOCK_SIZE as u64;
/// Greatest length of a copy of zeros without disks, in bytes: ten minutes at 100 Gbit/s.
pub const MAX_DISKLESS_BYTES: u64 = 8 << 40;
/// Most stages in the report of time by stage.
pub const MAX_STAGES: usize = 64;
/// Most published items that are read back from a run's journal.
pub const MAX_REMEMBERED: usize = 1_000_000;
/// Most bytes of directory paths that are read back from a run's journal.
pub const MAX_REMEMBERED_PATHS: usize = 16 << 20;
/// Most names and paths in one message about what is left out, deleted or removed.
pub const MAX_DELETED: usize = 2048;
/// Most bytes of the names or paths in such a message.
pub const MAX_DELETED_BYTES: usize = MAX_HEAD - (64 << 10);
/// Most names in one part of a list of names to be copied.
pub const MAX_NAMES_IN_PART: usize = 8192;
/// Most bytes of the names in such a part.
pub const MAX_NAME_BYTES_IN_PART: usize = 256 << 10;
/// Most names of open directories, and most extra items, that a receiver remembers for a deletion.
pub const MAX_EXTRAS: usize = 16 << 20;
/// Most files of a mirror's receiver that are compared for one item; each has a bit of a number.
pub const MAX_CANDIDATES: usize = 16;
/// Most records in one message of a listing.
pub const MAX_LISTED: usize = 2048;
/// Most bytes that the records of such a message weigh.
pub const MAX_LISTED_BYTES: usize = 512 << 10;
/// Most bytes that records weigh which a listing end has sent and the other has not used.
pub const MAX_LISTED_AHEAD: usize = 32 << 20;
/// Most rules for users, and for groups, of one copy.
pub const MAX_OWNER_RULES: usize = 64;
/// Most users, and most groups, whose names are told in one session.
pub const MAX_OWNER_NAMES: usize = 64 << 10;
/// Most users, and most groups, whose names are told in one message.
pub const MAX_NAMES_TOLD: usize = 1024;
const _: () = assert!(2 * MAX_NAMES_TOLD * (MAX_NAME + 8) < MAX_HEAD);
/// Most paths in a notice.
pub const MAX_NOTICED: usize = 3;
/// Longest path of an item in messages for people, in bytes: a source and a thousand of the longest
/// names beneath it.
pub const MAX_SHOWN_PATH: usize = MAX_PATH + 1024 * (1 + MAX_NAME);
/// Longest measurement, in nanoseconds: a day.
pub const MAX_MEASURE_NANOS: u64 = 86_400 * 1_000_000_000;
/// Largest socket buffer that a measurement may ask for, in bytes.
pub const MAX_WINDOW: u64 = 1 << 30;
/// Most samples in one message of a measurement's sender.
pub const MAX_SAMPLES: usize = 4096;
/// Most milliseconds for which a measurement keeps the arrivals: 70 minutes.
pub const MAX_BINS: usize = 4 << 20;
/// Most milliseconds of arrivals in one message.
pub const MAX_ARRIVALS: usize = 64 << 10;
/// Most errors that are reported for one measurement.
pub const MAX_MEASURE_ERRORS: usize = 256;
