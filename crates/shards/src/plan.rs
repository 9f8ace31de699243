//! The directory of a plan.
//!
//! ```text
//! plan.json            sources, destination, options, and the digests of the lists
//! lists/N-DIGEST       items of shard N
//! lists/directories-…  all directories, for the join
//! results/N.begun      host and process that began shard N last
//! results/N            its result
//! ```
//!
//! `plan.json` is written last, and again when a join plans failed items again. It has the digest
//! of each list, which is part of the list's name as well: a list that is not as planned is
//! refused, and two concurrent joins do not write the same one.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use icdc_disk::tree::{Directory, Incarnation, Kind, Name, Stat, Tree, TreeError};
use icdc_protocol::message::{Digest, Preserve};
use icdc_transfer::sender::selection::{Selected, SelectedState, Selection};
use icdc_transfer::sender::survey::{Surveyed, data_of, names_of};
use icdc_units::Rate;
use rustix::fs::{Timespec, Timestamps, UTIME_NOW};
use serde::{Deserialize, Serialize};

use crate::divide::divide;
use crate::files::{host, is_aside, read_bounded, write_whole};
use crate::joining::Joining;
use crate::list::{self, List, ListError, PlanId};
use crate::outcome::{Note, Outcome};

/// Version of the format of a plan's files.
const FORMAT: u32 = 1;
/// Most shards of one plan.
pub const MAX_SHARDS: u32 = 100_000;
/// Longest `plan.json` that is read in bytes.
const MAX_PLAN: u64 = 64 << 20;
/// Longest list or result that is read in bytes.
const MAX_LIST: u64 = 16 << 30;
/// Name of the file that describes the plan.
const PLAN: &str = "plan.json";
/// Name of the plan's directory of lists: the items of each shard, and all directories.
const LISTS: &str = "lists";
/// Name of the plan's directory of results and of notes that a shard was begun.
const RESULTS: &str = "results";
/// Suffix of the file that notes which process has begun a shard.
const BEGUN: &str = ".begun";
/// Beginning of the file name of the list of all directories, where a shard's list has the shard's
/// number.
const DIRECTORIES: &str = "directories";
/// Time since the last [`Plan::beat`] after which a process that copies a shard counts as dead.
const SILENT: Duration = Duration::from_secs(15);
/// List number in the header of the list of directories, where a shard's list has the shard's
/// number. No count.
const DIRECTORIES_LIST: u32 = u32::MAX;

/// Plan of a copy in shards, loaded from its directory, which any number of hosts share.
#[derive(Debug)]
pub struct Plan {
    directory: PathBuf,
    /// Parsed contents of `plan.json`.
    pub text: PlanText,
}

/// Contents of `plan.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanText {
    format: u32,
    id: PlanId,
    /// Release of icdc that made the plan.
    pub version: String,
    /// Name of the host on which the plan was made.
    pub host: String,
    /// Time at which the plan was made, in seconds since 1970.
    pub made: u64,
    /// Sources as absolute paths.
    pub sources: Vec<String>,
    /// Destination of the sources, as on the command line.
    pub destination: String,
    /// Metadata that is preserved.
    pub preserve: Preserve,
    /// Rate limit of all shards together; `None` for no limit.
    pub rate: Option<Rate>,
    /// Number of items in all, directories included.
    pub items: u64,
    /// Number of items that cannot be copied and are not planned.
    pub left_out: u64,
    directories: ListText,
    shards: Vec<ListText>,
    /// Number of leading shards whose failed items are settled: they are in later shards, or gone,
    /// or accepted as missing.
    replanned: u32,
}

/// Entry of `plan.json` about a list: its numbers of items and bytes, and the digest by which the
/// file is checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListText {
    /// Number of items in the list.
    pub items: u64,
    /// Number of bytes that are to be sent.
    pub bytes: u64,
    /// BLAKE3 digest of the list's file, in hexadecimal.
    digest: String,
}

/// Properties of a plan that is to be made.
pub struct PlanRequest {
    /// Sources as absolute paths.
    pub sources: Vec<String>,
    /// Destination of the sources.
    pub destination: String,
    /// Metadata that is preserved.
    pub preserve: Preserve,
    /// Rate limit of all shards together; `None` for no limit.
    pub rate: Option<Rate>,
    /// Number of shards, from 1.
    pub shards: u32,
    /// Number of items that cannot be copied and are not planned.
    pub left_out: u64,
}

/// Reason for which a plan cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file system reports an error.
    #[error("{}: {error}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the file system.
        error: io::Error,
    },
    /// The directory contains no plan.
    #[error("{}: there is no plan in this directory; make one with icdc plan SRC... DST --shards N -o DIR", .0.display())]
    Missing(PathBuf),
    /// The directory of a new plan is not empty.
    #[error("{}: the directory of a new plan must not exist, or be empty", .0.display())]
    Occupied(PathBuf),
    /// The file `plan.json` is not a plan.
    #[error("{}: this is no plan: {reason}", path.display())]
    Text {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The plan was written by a release with another format.
    #[error("{}: the plan was made by icdc {version}, whose plans have format {format}; this icdc reads format {FORMAT}; plan again with this icdc, or use icdc {version} on every host", path.display())]
    Format {
        /// Path of the file.
        path: PathBuf,
        /// Release that wrote the plan.
        version: String,
        /// Format of the plan.
        format: u32,
    },
    /// The file belongs neither to this user nor to root, or others may write to it.
    #[error("{}: the plan belongs to user {owner}, or others may write to it; plans tell what is copied where, so use your own: chmod -R go-w {}", path.display(), path.display())]
    NotOwn {
        /// Path of the file.
        path: PathBuf,
        /// User id of the file's owner.
        owner: u32,
    },
    /// A list is not what was planned.
    #[error("{}: the list {error}; plan again", path.display())]
    List {
        /// Path of the list.
        path: PathBuf,
        /// The reason.
        error: ListError,
    },
    /// A source does not exist on this host.
    #[error("{place}: this source cannot be found here ({error}); join on a host that has the sources")]
    NoSource {
        /// Path of the item, as planned.
        place: String,
        /// Error of the file system.
        error: io::Error,
    },
    /// The plan has no room for more shards.
    #[error(
        "the plan has {MAX_SHARDS} shards already; plan what failed by itself, with icdc copy --skip-equal or a new plan"
    )]
    Full,
    /// The plan has no shard of this number.
    #[error("the plan has shards 0 to {}, and none of number {number}", shards - 1)]
    NoShard {
        /// Number of the shard that was asked for.
        number: u32,
        /// Number of shards in the plan.
        shards: u32,
    },
}

/// State of a shard, as the files in the plan's directory tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardState {
    /// No process has begun the shard.
    Planned,
    /// A process has begun the shard; there is no result.
    Begun(Note),
    /// The shard is copied.
    Copied {
        /// Host and process that copied it.
        note: Note,
        /// Number of items that are not done.
        failed: u64,
    },
    /// The shard is copied; its failed items are part of later shards.
    Replanned {
        /// Host and process that copied it.
        note: Note,
        /// Number of items that failed.
        failed: u64,
    },
}

impl ShardState {
    /// Whether nothing of the shard is left to be copied.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Copied { failed: 0, .. } | Self::Replanned { .. })
    }
}

/// Result of planning failed items again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replanned {
    /// Numbers of the new shards.
    pub shards: Range<u32>,
    /// Number of items in the new shards.
    pub items: u64,
    /// Number of items that no longer exist in the sources, or are neither file nor symbolic link
    /// any more.
    pub gone: u64,
}

impl Plan {
    /// Makes a plan of all `items`, which are in scan order, in `directory`; `now` in seconds since
    /// 1970.
    ///
    /// # Errors
    /// [`PlanError::Occupied`], [`PlanError::NotOwn`], [`PlanError::File`].
    pub fn make(directory: &Path, order: PlanRequest, items: &[Surveyed], now: u64) -> Result<Self, PlanError> {
        make_directories(directory)?;
        let mut id = PlanId::default();
        getrandom::fill(&mut id).map_err(|error| at(directory)(error.into()))?;
        let is_directory = |item: &&(u64, &Selected)| item.1.state == SelectedState::Directory;
        let all: Vec<(u64, &Selected)> = (0..).zip(items.iter().map(|item| &item.selected)).collect();
        let directories: Vec<_> = all.iter().filter(is_directory).copied().collect();
        let nothing = ListText { items: 0, bytes: 0, digest: String::new() };
        let mut plan = Self {
            directory: directory.to_owned(),
            text: PlanText {
                format: FORMAT,
                id,
                version: env!("CARGO_PKG_VERSION").into(),
                host: host(),
                made: now,
                sources: order.sources,
                destination: order.destination,
                preserve: order.preserve,
                rate: order.rate,
                items: items.len() as u64,
                left_out: order.left_out,
                directories: nothing,
                shards: Vec::new(),
                replanned: 0,
            },
        };
        plan.text.directories = plan.write_list(DIRECTORIES, DIRECTORIES_LIST, &directories, 0)?;
        plan.add_shards(items, &all, order.shards)?;
        plan.write()?;
        Ok(plan)
    }

    /// Divides `items`, whose places are in `placed`, into new shards after the existing ones.
    fn add_shards(&mut self, items: &[Surveyed], placed: &[(u64, &Selected)], shards: u32) -> Result<(), PlanError> {
        for places in divide(items, shards as usize) {
            let number = self.shards();
            let list: Vec<_> = places.iter().filter_map(|place| placed.get(*place)).copied().collect();
            // A file with several names has its bytes once.
            let mut known = BTreeSet::new();
            let is_first = |item: &&Surveyed| item.linked.is_none_or(|file| known.insert(file));
            let firsts = places.iter().filter_map(|place| items.get(*place)).filter(is_first);
            let bytes = firsts.map(|item| item.data).fold(0, u64::saturating_add);
            let text = self.write_list(&number.to_string(), number, &list, bytes)?;
            self.text.shards.push(text);
        }
        Ok(())
    }

    /// Writes the file of a list, of whose items `bytes` bytes are to be sent.
    fn write_list(
        &self,
        name: &str,
        number: u32,
        items: &[(u64, &Selected)],
        bytes: u64,
    ) -> Result<ListText, PlanError> {
        let encoded = list::encode(self.text.id, number, items.iter().copied());
        let digest = blake3::hash(&encoded).to_hex().to_string();
        let path = self.list(name, &digest);
        write_whole(&path, &[&encoded]).map_err(|error| PlanError::File { path, error })?;
        Ok(ListText { items: items.len() as u64, bytes, digest })
    }

    /// Path of the file of a list, whose name ends with the first 16 digits of its digest.
    fn list(&self, name: &str, digest: &str) -> PathBuf {
        self.directory.join(LISTS).join(format!("{name}-{}", digest.get(..16).unwrap_or(digest)))
    }

    /// Writes `plan.json`.
    fn write(&self) -> Result<(), PlanError> {
        let path = self.directory.join(PLAN);
        let text = serde_json::to_vec_pretty(&self.text).expect("text and numbers are JSON");
        write_whole(&path, &[&text, b"\n"]).map_err(|error| PlanError::File { path, error })
    }

    /// Loads the plan in `directory`.
    ///
    /// # Errors
    /// [`PlanError::Missing`], [`PlanError::NotOwn`], [`PlanError::File`], [`PlanError::Text`],
    /// [`PlanError::Format`].
    pub fn open(directory: &Path) -> Result<Self, PlanError> {
        let path = directory.join(PLAN);
        let at = |error| PlanError::File { path: path.clone(), error };
        [directory, &path, &directory.join(LISTS), &directory.join(RESULTS)].into_iter().try_for_each(check_own)?;
        let bytes = read_bounded(&path, MAX_PLAN).map_err(at)?;
        let not = |reason: &dyn ToString| PlanError::Text { path: path.clone(), reason: reason.to_string() };
        // Another format need not have the same fields.
        let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(|error| not(&error))?;
        let format = value.get("format").and_then(serde_json::Value::as_u64).ok_or_else(|| not(&"it has no format"))?;
        if format != u64::from(FORMAT) {
            let version = value.get("version").and_then(|version| version.as_str()).unwrap_or("of another release");
            let (version, format) = (version.to_owned(), u32::try_from(format).unwrap_or(u32::MAX));
            return Err(PlanError::Format { path, version, format });
        }
        let text: PlanText = serde_json::from_value(value).map_err(|error| not(&error))?;
        let counted = text.shards.iter().map(|list| list.items).fold(text.directories.items, u64::saturating_add);
        if text.items > counted || text.shards.is_empty() || text.shards.len() > MAX_SHARDS as usize {
            return Err(not(&"its numbers do not fit each other"));
        }
        Ok(Self { directory: directory.to_owned(), text })
    }

    /// Number of shards in the plan.
    #[must_use]
    pub fn shards(&self) -> u32 {
        self.text.shards.len() as u32
    }

    /// Properties of the shards' lists, in the order of their numbers; the list of directories is
    /// not among them.
    #[must_use]
    pub fn lists(&self) -> &[ListText] {
        &self.text.shards
    }

    /// Properties of the list of shard `number`; an error if there is no such shard.
    fn shard(&self, number: u32) -> Result<&ListText, PlanError> {
        let none = PlanError::NoShard { number, shards: self.shards() };
        self.text.shards.get(number as usize).ok_or(none)
    }

    /// Reads a list's file, and checks that it is the planned one by its digest.
    fn read_list(&self, name: &str, number: u32, text: &ListText) -> Result<List, PlanError> {
        if !text.digest.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            let (path, reason) = (self.directory.join(PLAN), "the digest of a list is none".into());
            return Err(PlanError::Text { path, reason });
        }
        let path = self.list(name, &text.digest);
        let bytes = read_bounded(&path, MAX_LIST);
        let bytes = bytes.map_err(|error| PlanError::File { path: path.clone(), error })?;
        let is_planned = blake3::hash(&bytes).to_hex().as_str() == text.digest;
        let list = if is_planned { list::decode(&bytes, self.text.id, number) } else { Err(ListError::Damaged) };
        let list = list.map_err(|error| PlanError::List { path: path.clone(), error })?;
        let is_within = list.places.last().is_none_or(|last| *last < self.text.items)
            && list.items.iter().all(|item| (item.source as usize) < self.text.sources.len());
        if is_within { Ok(list) } else { Err(PlanError::List { path, error: ListError::Damaged }) }
    }

    /// The selection by which a copy takes the items of shard `number` only.
    ///
    /// # Errors
    /// [`PlanError::NoShard`], [`PlanError::File`], [`PlanError::Text`], [`PlanError::List`].
    pub fn selection(&self, number: u32) -> Result<Selection, PlanError> {
        let list = self.read_list(&number.to_string(), number, self.shard(number)?)?;
        self.select(list, number)
    }

    /// The selection of directories, to which a join's run gives their attributes.
    ///
    /// # Errors
    /// [`PlanError::File`], [`PlanError::Text`], [`PlanError::List`].
    pub fn directories(&self) -> Result<Selection, PlanError> {
        let list = self.read_list(DIRECTORIES, DIRECTORIES_LIST, &self.text.directories)?;
        self.select(list, DIRECTORIES_LIST)
    }

    /// The selection by which a copy takes the items of a list only; its id follows from plan and
    /// number, so that every host has the same.
    fn select(&self, list: List, number: u32) -> Result<Selection, PlanError> {
        let mut id = blake3::Hasher::new_derive_key("icdc shard 1");
        id.update(&self.text.id).update(&number.to_le_bytes());
        let selection = list.selection(*id.finalize().as_bytes());
        let path = self.directory.join(LISTS);
        selection.map_err(|error| PlanError::List { path, error })
    }

    /// Path of the result file of a shard, or with another suffix of the note that it has begun.
    fn result(&self, number: u32, suffix: &str) -> PathBuf {
        self.directory.join(RESULTS).join(format!("{number}{suffix}"))
    }

    /// Notes in the plan's directory that this process begins to copy shard `number` at `now`, in
    /// seconds since 1970.
    ///
    /// # Errors
    /// [`PlanError::NoShard`], [`PlanError::File`].
    pub fn begin(&self, number: u32, now: u64) -> Result<(), PlanError> {
        let note = note(self.shard(number)?, now);
        let text = serde_json::to_vec(&note).expect("text and numbers are JSON");
        let path = self.result(number, BEGUN);
        write_whole(&path, &[&text]).map_err(|error| PlanError::File { path, error })
    }

    /// Marks the process that has begun shard `number` as alive; returns the number of shards that
    /// are being copied, this one included.
    ///
    /// Processes are compared by the times that the file system gives their notes, so that the
    /// hosts' clocks do not matter. Notes are opened because a network file system's cached
    /// attributes may be old until then.
    ///
    /// # Errors
    /// [`PlanError::File`].
    pub fn beat(&self, number: u32) -> Result<u64, PlanError> {
        let own = self.result(number, BEGUN);
        let touched = File::options().write(true).open(&own).and_then(|note| {
            let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            rustix::fs::futimens(&note, &Timestamps { last_access: now, last_modification: now })?;
            note.metadata()?.modified()
        });
        let latest = touched.map_err(|error| PlanError::File { path: own, error })?;
        let directory = self.directory.join(RESULTS);
        let at = |error| PlanError::File { path: directory.clone(), error };
        let mut at_work = 0;
        for entry in std::fs::read_dir(&directory).map_err(at)? {
            let path = entry.map_err(at)?.path();
            if !path.to_string_lossy().ends_with(BEGUN) {
                continue;
            }
            // One that is gone by now is copied.
            let beat = File::open(&path).and_then(|note| note.metadata()?.modified());
            let is_alive = |beat: SystemTime| latest.duration_since(beat).unwrap_or_default() < SILENT;
            at_work += u64::from(beat.is_ok_and(is_alive));
        }
        Ok(at_work.max(1))
    }

    /// Writes the result of shard `number` at `now`, in seconds since 1970: digests of its items in
    /// the order of its list.
    ///
    /// # Errors
    /// [`PlanError::NoShard`], [`PlanError::File`].
    pub fn write_result(&self, number: u32, digests: Vec<Option<Digest>>, now: u64) -> Result<(), PlanError> {
        let outcome = Outcome { note: note(self.shard(number)?, now), digests };
        let path = self.result(number, "");
        write_whole(&path, &[outcome.encode().as_bytes()]).map_err(|error| PlanError::File { path, error })?;
        let _ = std::fs::remove_file(self.result(number, BEGUN));
        Ok(())
    }

    /// State of shard `number`. A result of another list, or a malformed one, is ignored.
    ///
    /// # Errors
    /// [`PlanError::NoShard`], [`PlanError::File`].
    pub fn state(&self, number: u32) -> Result<ShardState, PlanError> {
        if let Some(Outcome { note, digests }) = self.outcome(number)? {
            let failed = digests.iter().filter(|digest| digest.is_none()).count() as u64;
            let is_replanned = failed > 0 && number < self.text.replanned;
            let copied =
                if is_replanned { ShardState::Replanned { note, failed } } else { ShardState::Copied { note, failed } };
            return Ok(copied);
        }
        let begun = read_bounded(&self.result(number, BEGUN), MAX_PLAN).ok();
        let note = begun.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok(note.map_or(ShardState::Planned, ShardState::Begun))
    }

    /// The result of a shard; `None` if the file is missing, malformed, or of another list.
    fn outcome(&self, number: u32) -> Result<Option<Outcome>, PlanError> {
        let list = self.shard(number)?;
        let path = self.result(number, "");
        let bytes = match read_bounded(&path, MAX_LIST) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(|error| PlanError::File { path, error })?,
        };
        let outcome = std::str::from_utf8(&bytes).ok().and_then(|text| Outcome::decode(text, list.items));
        Ok(outcome.filter(|outcome| outcome.note.list == list.digest))
    }

    /// Joins the results of all shards: the digests of all items that are done.
    ///
    /// # Errors
    /// [`PlanError::File`], [`PlanError::Text`], [`PlanError::List`].
    pub fn gather(&self) -> Result<Joining, PlanError> {
        let directories = self.read_list(DIRECTORIES, DIRECTORIES_LIST, &self.text.directories)?;
        let mut counted = directories.places.len() as u64;
        let mut results = Vec::new();
        for (number, text) in (0..).zip(&self.text.shards) {
            let list = self.read_list(&number.to_string(), number, text)?;
            counted += list.places.len() as u64;
            if let Some(outcome) = self.outcome(number)? {
                results.push((list.places, outcome.digests));
            }
        }
        if self.text.items > counted {
            let path = self.directory.join(PLAN);
            return Err(PlanError::Text { path, reason: "it has more items than its lists".into() });
        }
        let mut joining = Joining::new(usize::try_from(self.text.items).unwrap_or(usize::MAX));
        results.iter().for_each(|(places, digests)| joining.take_in(places, digests));
        Ok(joining)
    }

    /// Adds the results of the run that gave directories their attributes to `joining`; returns the
    /// number of directories that exist in the sources and are not done.
    ///
    /// # Errors
    /// [`PlanError::File`], [`PlanError::Text`], [`PlanError::List`].
    pub fn take_in_directories(&self, joining: &mut Joining, digests: &[Option<Digest>]) -> Result<u64, PlanError> {
        let list = self.read_list(DIRECTORIES, DIRECTORIES_LIST, &self.text.directories)?;
        joining.take_in(&list.places, digests);
        let mut left = 0;
        for (place, item) in list.places.into_iter().zip(list.items) {
            let is_there = |(found, _): (Stat, _)| found.kind == Kind::Directory;
            left += u64::from(!joining.is_done(place) && self.find(&item)?.is_some_and(is_there));
        }
        Ok(left)
    }

    /// Accepts that items of the existing shards have failed or are gone: each of these
    /// shards counts as done once it has a result, now and in later runs. Shards without a
    /// result still have to be copied. Writes the plan.
    ///
    /// # Errors
    /// [`PlanError::File`] if the plan cannot be written.
    pub fn accept_missing(&mut self) -> Result<(), PlanError> {
        self.text.replanned = self.shards();
        self.write()
    }

    /// Plans items that are not done again, in at most `most` new shards, each item as it is now.
    /// Items that no longer exist in the sources, or are neither file nor symbolic link any more,
    /// are only counted.
    ///
    /// # Errors
    /// [`PlanError::NoSource`], [`PlanError::Full`], [`PlanError::File`], [`PlanError::Text`],
    /// [`PlanError::List`].
    pub fn plan_again(&mut self, joining: &Joining, most: u32) -> Result<Replanned, PlanError> {
        for source in &self.text.sources {
            let found = std::fs::symlink_metadata(source);
            found.map_err(|error| PlanError::NoSource { place: source.clone(), error })?;
        }
        let (mut failed, mut gone) = (BTreeMap::new(), BTreeSet::new());
        for (number, text) in (0..).zip(&self.text.shards) {
            let list = self.read_list(&number.to_string(), number, text)?;
            for (place, selected) in list.places.into_iter().zip(list.items) {
                if joining.is_done(place) || failed.contains_key(&place) {
                    continue;
                }
                match self.inspect(&selected)? {
                    Some(item) => drop(failed.insert(place, item)),
                    None => drop(gone.insert(place)),
                }
            }
        }
        let first = self.shards();
        let room = MAX_SHARDS.saturating_sub(first);
        if room == 0 && !failed.is_empty() {
            return Err(PlanError::Full);
        }
        let shards = most.min(room).min(u32::try_from(failed.len()).unwrap_or(most));
        let items: Vec<Surveyed> = failed.values().cloned().collect();
        let placed: Vec<(u64, &Selected)> = failed.iter().map(|(place, item)| (*place, &item.selected)).collect();
        if shards > 0 {
            self.add_shards(&items, &placed, shards)?;
        }
        let replanned = Replanned { shards: first..first + shards, items: items.len() as u64, gone: gone.len() as u64 };
        if shards > 0 {
            if gone.is_empty() {
                self.text.replanned = first;
            }
            self.write()?;
        }
        Ok(replanned)
    }

    /// Path of an item in the sources on this host; `None` if its source is not in the plan.
    fn path_of(&self, selected: &Selected) -> Option<PathBuf> {
        let source = Path::new(self.text.sources.get(selected.source as usize)?);
        Some(match selected.path.as_slice() {
            [] => source.to_owned(),
            below => source.join(OsStr::from_bytes(below)),
        })
    }

    /// Present attributes of an item in the sources, and the file's identity if it has several
    /// names; `None` if the item is gone. Paths may be longer than a system call takes.
    fn find(&self, selected: &Selected) -> Result<Option<(Stat, Option<Incarnation>)>, PlanError> {
        match self.walk_to(selected) {
            Ok(found) => Ok(found),
            Err(TreeError::NotADirectory { .. }) => Ok(None),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => {
                let path = self.path_of(selected).unwrap_or_default();
                Err(PlanError::File { path, error: io::Error::other(error) })
            }
        }
    }

    /// Opens the directories that lead to an item one by one, and examines it as [`Plan::find`]
    /// does.
    fn walk_to(&self, selected: &Selected) -> Result<Option<(Stat, Option<Incarnation>)>, TreeError> {
        let Some(source) = self.text.sources.get(selected.source as usize) else { return Ok(None) };
        let source = Tree::unconfined(Path::new("/"))?.resolve(source.as_bytes())?;
        let found = |directory: &Directory, name: &Name| {
            names_of(directory, name, &directory.stat(name)?, self.text.preserve.links).map(Some)
        };
        if selected.path.is_empty() {
            return match (&source.name, source.stat) {
                (Some(name), Some(_)) => found(&source.directory, name),
                (_, stat) => Ok(stat.map(|stat| (stat, None))),
            };
        }
        let mut directory = source.open_directory()?;
        let mut names = selected.path.split(|byte| *byte == b'/').map(Name::new).peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                return found(&directory, &name?);
            }
            directory = directory.open_directory(&name?)?;
        }
        Ok(None)
    }

    /// The present state of an item; `None` if it is gone, or has become something that is not
    /// planned as an item of a shard.
    fn inspect(&self, selected: &Selected) -> Result<Option<Surveyed>, PlanError> {
        let is_item = |(found, _): &(Stat, _)| matches!(found.kind, Kind::File | Kind::Symlink);
        let Some((found, linked)) = self.find(selected)?.filter(is_item) else { return Ok(None) };
        let data = data_of(&found, self.text.preserve.sparse);
        let selected = Selected { state: SelectedState::of(&found), ..selected.clone() };
        Ok(Some(Surveyed { selected, data, linked }))
    }
}

/// Returns a function that attaches a path to an error of the kernel.
fn at(path: &Path) -> impl Fn(std::io::Error) -> PlanError + use<> {
    let path = path.to_owned();
    move |error| PlanError::File { path: path.clone(), error }
}

/// Makes the directory of a new plan and those in it. Files left by a process that was killed while
/// it planned are removed; a directory with anything else in it is an error.
fn make_directories(directory: &Path) -> Result<(), PlanError> {
    let mut private = std::fs::DirBuilder::new();
    private.mode(0o700);
    match private.create(directory) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            check_own(directory)?;
            let occupied = || PlanError::Occupied(directory.to_owned());
            if directory.join(PLAN).exists() {
                return Err(occupied());
            }
            for entry in std::fs::read_dir(directory).map_err(at(directory))? {
                let entry = entry.map_err(at(directory))?;
                let (name, path) = (entry.file_name(), entry.path());
                let cleared = if [LISTS, RESULTS].iter().any(|known| name == *known) {
                    std::fs::remove_dir_all(&path)
                } else if is_aside(name.as_bytes(), PLAN) {
                    std::fs::remove_file(&path)
                } else {
                    return Err(occupied());
                };
                cleared.map_err(at(&path))?;
            }
        }
        made => made.map_err(at(directory))?,
    }
    for inner in [LISTS, RESULTS] {
        private.create(directory.join(inner)).map_err(at(&directory.join(inner)))?;
    }
    Ok(())
}

/// Fails for a file that does not exist, belongs to another user than this one or root, or can be
/// written by others.
fn check_own(path: &Path) -> Result<(), PlanError> {
    let found = match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let directory = if path.ends_with(PLAN) { path.parent().unwrap_or(path) } else { path };
            return Err(PlanError::Missing(directory.to_owned()));
        }
        found => found.map_err(|error| PlanError::File { path: path.to_owned(), error })?,
    };
    if icdc_trust::is_own(&found) && found.mode() & 0o022 == 0 {
        Ok(())
    } else {
        Err(PlanError::NotOwn { path: path.to_owned(), owner: found.uid() })
    }
}

/// A note by this process about a list, at the time `now`.
fn note(list: &ListText, now: u64) -> Note {
    Note { list: list.digest.clone(), host: host(), pid: std::process::id(), at: now }
}
