//! The directory of a plan.
//!
//! ```text
//! plan.json            what is copied, how, and which lists there are
//! lists/N              items of shard N
//! lists/directories    all directories, for the join
//! results/N.begun      who began shard N last
//! results/N            what became of it
//! ```
//!
//! `plan.json` is written last, and again when a join plans anew what failed; each list is written
//! once. It names the digest of each list, so that a list is what was planned or is refused.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use icdc_protocol::message::{Digest, Preserve};
use icdc_transfer::sender::selection::{Selected, SelectedState, Selection};
use icdc_transfer::sender::survey::Surveyed;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};

use crate::divide::divide;
use crate::files::{read_bounded, write_whole};
use crate::joining::Joining;
use crate::list::{self, List, ListError, PlanId};
use crate::outcome::{Note, Outcome};

/// Format of the files.
const FORMAT: u32 = 1;
/// Most shards of a plan.
pub const MAX_SHARDS: u32 = 100_000;
/// Longest `plan.json` that is read in bytes.
const MAX_PLAN: u64 = 64 << 20;
/// Longest list or result that is read in bytes.
const MAX_LIST: u64 = 16 << 30;
const PLAN: &str = "plan.json";
const LISTS: &str = "lists";
const RESULTS: &str = "results";
const DIRECTORIES: &str = "directories";
/// Number by which the list of the directories is known in its file.
const NUMBER_OF_DIRECTORIES: u32 = u32::MAX;

/// A plan, as its directory has it.
#[derive(Debug)]
pub struct Plan {
    directory: PathBuf,
    /// What it says.
    pub text: PlanText,
}

/// What `plan.json` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanText {
    format: u32,
    id: PlanId,
    /// The release that planned.
    pub version: String,
    /// Host that planned.
    pub host: String,
    /// When, in seconds since 1970.
    pub made: u64,
    /// Sources as absolute paths.
    pub sources: Vec<String>,
    /// Directory that they go to, as on the command line.
    pub destination: String,
    /// Patterns of what is left out.
    pub exclude: Vec<String>,
    /// What is preserved besides the data.
    pub preserve: Preserve,
    /// Items in all, directories included.
    pub items: u64,
    directories: ListText,
    shards: Vec<ListText>,
    /// Places of items that were gone when they were planned again.
    gone: Vec<u64>,
}

/// A list of items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListText {
    /// Number of items.
    pub items: u64,
    /// Sum of the sizes in bytes.
    pub bytes: u64,
    /// BLAKE3 digest of its file in hex.
    digest: String,
}

/// What is planned.
pub struct Order {
    /// Sources as absolute paths.
    pub sources: Vec<String>,
    /// Directory that they go to.
    pub destination: String,
    /// Patterns of what is left out.
    pub exclude: Vec<String>,
    /// What is preserved besides the data.
    pub preserve: Preserve,
    /// Number of shards, from 1.
    pub shards: u32,
}

/// Why a plan cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file system's reason.
    #[error("{}: {error}", path.display())]
    File {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is no plan.
    #[error("{}: there is no plan in this directory; make one with icdc plan SRC... DST --shards N -o DIR", .0.display())]
    None(PathBuf),
    /// Something is in the way of a new plan.
    #[error("{}: the directory of a new plan must not exist, or be empty", .0.display())]
    Occupied(PathBuf),
    /// `plan.json` is no plan.
    #[error("{}: this is no plan: {reason}", path.display())]
    Text {
        /// Where.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Of a release with other files.
    #[error("{}: the plan was made by icdc {version}, whose plans have format {format}; this icdc reads format {FORMAT}: plan with it, or use the other one everywhere", path.display())]
    Format {
        /// Where.
        path: PathBuf,
        /// Who wrote it.
        version: String,
        /// What it wrote.
        format: u32,
    },
    /// Others may have written it.
    #[error("{}: the plan belongs to user {owner}, or others may write to it; plans tell what is copied where, so use your own: chmod -R go-w {}", path.display(), path.display())]
    NotOwn {
        /// Where.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// A list is not what was planned.
    #[error("{}: the list {error}; plan again", path.display())]
    List {
        /// Where.
        path: PathBuf,
        /// Why.
        error: ListError,
    },
    /// There is no such shard.
    #[error("the plan has shards 0 to {}, and none of number {number}", shards - 1)]
    NoShard {
        /// What was asked for.
        number: u32,
        /// How many there are.
        shards: u32,
    },
}

/// What is known of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardState {
    /// Nobody has begun it.
    Planned,
    /// Somebody has begun it, and nothing tells how it ended.
    Begun(Note),
    /// It was copied: so many of its items are not done.
    Copied {
        /// By whom.
        note: Note,
        /// Items that are not done.
        failed: u64,
    },
}

/// Items that are planned again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Again {
    /// The new shards: the first one, and how many.
    pub shards: (u32, u32),
    /// Items in them.
    pub items: u64,
    /// Items that are gone from the sources.
    pub gone: u64,
}

impl Plan {
    /// Makes a plan of all `items`, which are in scan order, in `directory`; `now` in seconds since
    /// 1970.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn make(directory: &Path, order: Order, items: &[Surveyed], now: u64) -> Result<Self, PlanError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error| PlanError::File { path, error }
        };
        let mut private = std::fs::DirBuilder::new();
        private.mode(0o700);
        match private.create(directory) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let mut entries = std::fs::read_dir(directory).map_err(at(directory))?;
                if entries.next().is_some() {
                    return Err(PlanError::Occupied(directory.to_owned()));
                }
            }
            made => made.map_err(at(directory))?,
        }
        for inner in [LISTS, RESULTS] {
            private.create(directory.join(inner)).map_err(at(&directory.join(inner)))?;
        }
        let mut id = PlanId::default();
        getrandom(&mut id, GetRandomFlags::empty()).map_err(|error| at(directory)(error.into()))?;
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
                exclude: order.exclude,
                preserve: order.preserve,
                items: items.len() as u64,
                directories: nothing,
                shards: Vec::new(),
                gone: Vec::new(),
            },
        };
        plan.text.directories = plan.write_list(DIRECTORIES, NUMBER_OF_DIRECTORIES, &directories)?;
        plan.add_shards(items, &all, order.shards)?;
        plan.write()?;
        Ok(plan)
    }

    /// Divides `items`, which are `placed`, into shards behind those that there are.
    fn add_shards(&mut self, items: &[Surveyed], placed: &[(u64, &Selected)], shards: u32) -> Result<(), PlanError> {
        for places in divide(items, shards as usize) {
            let number = self.shards();
            let list: Vec<_> = places.iter().filter_map(|place| placed.get(*place)).copied().collect();
            let text = self.write_list(&number.to_string(), number, &list)?;
            self.text.shards.push(text);
        }
        Ok(())
    }

    fn write_list(&self, name: &str, number: u32, items: &[(u64, &Selected)]) -> Result<ListText, PlanError> {
        let bytes = list::encode(self.text.id, number, items.iter().copied());
        let path = self.directory.join(LISTS).join(name);
        write_whole(&path, &[&bytes]).map_err(|error| PlanError::File { path, error })?;
        let size = |item: &Selected| match item.state {
            SelectedState::Other { size, .. } => size,
            SelectedState::Directory => 0,
        };
        let bytes_in_all = items.iter().map(|(_, item)| size(item)).fold(0, u64::saturating_add);
        let digest = blake3::hash(&bytes).to_hex().to_string();
        Ok(ListText { items: items.len() as u64, bytes: bytes_in_all, digest })
    }

    fn write(&self) -> Result<(), PlanError> {
        let path = self.directory.join(PLAN);
        let text = serde_json::to_vec_pretty(&self.text).expect("text and numbers are JSON");
        write_whole(&path, &[&text, b"\n"]).map_err(|error| PlanError::File { path, error })
    }

    /// The plan in `directory`.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn open(directory: &Path) -> Result<Self, PlanError> {
        let path = directory.join(PLAN);
        let at = |error| PlanError::File { path: path.clone(), error };
        for path in [directory, &path] {
            let found = match std::fs::metadata(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Err(PlanError::None(directory.to_owned())),
                found => found.map_err(at)?,
            };
            if (found.uid() != 0 && found.uid() != rustix::process::geteuid().as_raw()) || found.mode() & 0o022 != 0 {
                return Err(PlanError::NotOwn { path: path.to_owned(), owner: found.uid() });
            }
        }
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

    /// Number of shards.
    #[must_use]
    pub fn shards(&self) -> u32 {
        self.text.shards.len() as u32
    }

    /// What is in each shard.
    #[must_use]
    pub fn lists(&self) -> &[ListText] {
        &self.text.shards
    }

    fn shard(&self, number: u32) -> Result<&ListText, PlanError> {
        let none = PlanError::NoShard { number, shards: self.shards() };
        self.text.shards.get(number as usize).ok_or(none)
    }

    fn read_list(&self, name: &str, number: u32, text: &ListText) -> Result<List, PlanError> {
        let path = self.directory.join(LISTS).join(name);
        let bytes = read_bounded(&path, MAX_LIST);
        let bytes = bytes.map_err(|error| PlanError::File { path: path.clone(), error })?;
        let is_planned = blake3::hash(&bytes).to_hex().as_str() == text.digest;
        let list = if is_planned { list::decode(&bytes, self.text.id, number) } else { Err(ListError::Damaged) };
        let list = list.map_err(|error| PlanError::List { path: path.clone(), error })?;
        let is_within = list.places.last().is_none_or(|last| *last < self.text.items)
            && list.items.iter().all(|item| (item.source as usize) < self.text.sources.len());
        if is_within { Ok(list) } else { Err(PlanError::List { path, error: ListError::Damaged }) }
    }

    /// What a run of shard `number` copies.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn selection(&self, number: u32) -> Result<Selection, PlanError> {
        let list = self.read_list(&number.to_string(), number, self.shard(number)?)?;
        self.select(list, number)
    }

    /// What the run copies by which a join gives directories their attributes.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn directories(&self) -> Result<Selection, PlanError> {
        let list = self.read_list(DIRECTORIES, NUMBER_OF_DIRECTORIES, &self.text.directories)?;
        self.select(list, NUMBER_OF_DIRECTORIES)
    }

    fn select(&self, list: List, number: u32) -> Result<Selection, PlanError> {
        let mut id = blake3::Hasher::new_derive_key("icdc shard 1");
        id.update(&self.text.id).update(&number.to_le_bytes());
        let selection = list.selection(*id.finalize().as_bytes());
        let path = self.directory.join(LISTS);
        selection.map_err(|error| PlanError::List { path, error })
    }

    fn result(&self, number: u32, suffix: &str) -> PathBuf {
        self.directory.join(RESULTS).join(format!("{number}{suffix}"))
    }

    /// Notes that this process begins shard `number` at `now`, in seconds since 1970.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn begin(&self, number: u32, now: u64) -> Result<(), PlanError> {
        let note = note(self.shard(number)?, now);
        let text = serde_json::to_vec(&note).expect("text and numbers are JSON");
        let path = self.result(number, ".begun");
        write_whole(&path, &[&text]).map_err(|error| PlanError::File { path, error })
    }

    /// Notes what became of shard `number` by `now`, in seconds since 1970: digests of its items in
    /// the order of its list.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn note(&self, number: u32, digests: Vec<Option<Digest>>, now: u64) -> Result<(), PlanError> {
        let outcome = Outcome { note: note(self.shard(number)?, now), digests };
        let path = self.result(number, "");
        write_whole(&path, &[outcome.encode().as_bytes()]).map_err(|error| PlanError::File { path, error })
    }

    /// What is known of shard `number`. A result of another list, or one that makes no sense, is
    /// none.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn state(&self, number: u32) -> Result<ShardState, PlanError> {
        if let Some(Outcome { note, digests }) = self.outcome(number)? {
            let failed = digests.iter().filter(|digest| digest.is_none()).count() as u64;
            return Ok(ShardState::Copied { note, failed });
        }
        let begun = read_bounded(&self.result(number, ".begun"), MAX_PLAN).ok();
        let note = begun.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok(note.map_or(ShardState::Planned, ShardState::Begun))
    }

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

    /// What the results of all shards make together.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn gather(&self) -> Result<Joining, PlanError> {
        let items = usize::try_from(self.text.items).unwrap_or(usize::MAX);
        let mut joining = Joining::new(items);
        for (number, text) in (0..).zip(&self.text.shards) {
            let Some(outcome) = self.outcome(number)? else { continue };
            let list = self.read_list(&number.to_string(), number, text)?;
            joining.take_in(&list.places, &outcome.digests);
        }
        Ok(joining)
    }

    /// Takes in what became of the directories.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn take_in_directories(&self, joining: &mut Joining, digests: &[Option<Digest>]) -> Result<(), PlanError> {
        let list = self.read_list(DIRECTORIES, NUMBER_OF_DIRECTORIES, &self.text.directories)?;
        joining.take_in(&list.places, digests);
        Ok(())
    }

    /// Directories of the sources that are not done, and are there.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn directories_left(&self, joining: &Joining) -> Result<u64, PlanError> {
        let list = self.read_list(DIRECTORIES, NUMBER_OF_DIRECTORIES, &self.text.directories)?;
        let is_left = |(place, item): &(u64, Selected)| {
            !joining.is_done(*place) && self.path_of(item).is_some_and(|path| path.symlink_metadata().is_ok())
        };
        Ok(list.places.into_iter().zip(list.items).filter(is_left).count() as u64)
    }

    /// Plans again what is not done, in as many shards as there were at first or fewer: each item as
    /// it is now; those that are gone are not waited for any more.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn plan_again(&mut self, joining: &Joining, most: u32) -> Result<Again, PlanError> {
        let mut items = Vec::new();
        let mut places = Vec::new();
        let mut gone: Vec<u64> = Vec::new();
        let known: BTreeSet<u64> = self.text.gone.iter().copied().collect();
        let mut seen = BTreeSet::new();
        for (number, text) in (0..).zip(&self.text.shards) {
            let list = self.read_list(&number.to_string(), number, text)?;
            for (place, selected) in list.places.into_iter().zip(list.items) {
                if joining.is_done(place) || known.contains(&place) || !seen.insert(place) {
                    continue;
                }
                match self.look(&selected) {
                    Some(item) => {
                        items.push(item);
                        places.push(place);
                    }
                    None => gone.push(place),
                }
            }
        }
        let mut order: Vec<usize> = (0..items.len()).collect();
        order.sort_by_key(|at| places[*at]);
        let items: Vec<Surveyed> = order.iter().map(|at| items[*at].clone()).collect();
        let placed: Vec<(u64, &Selected)> =
            order.iter().zip(&items).map(|(at, item)| (places[*at], &item.selected)).collect();
        let first = self.shards();
        let shards = most.min(u32::try_from(items.len()).unwrap_or(most));
        if shards > 0 {
            self.add_shards(&items, &placed, shards)?;
        }
        let again = Again { shards: (first, shards), items: items.len() as u64, gone: gone.len() as u64 };
        self.text.gone.extend(gone);
        self.write()?;
        Ok(again)
    }

    /// Items that were gone when they were planned again.
    #[must_use]
    pub fn gone(&self) -> u64 {
        self.text.gone.len() as u64
    }

    /// Where an item is.
    fn path_of(&self, selected: &Selected) -> Option<PathBuf> {
        let source = Path::new(self.text.sources.get(selected.source as usize)?);
        Some(match selected.path.as_slice() {
            [] => source.to_owned(),
            below => source.join(OsStr::from_bytes(below)),
        })
    }

    /// An item as it is now; `None` if it is gone.
    fn look(&self, selected: &Selected) -> Option<Surveyed> {
        let found = std::fs::symlink_metadata(self.path_of(selected)?).ok()?;
        let nanos = u32::try_from(found.mtime_nsec()).ok()?;
        if found.is_dir() || !(found.is_file() || found.is_symlink()) {
            return None;
        }
        let state = SelectedState::Other { size: found.size(), mtime: (found.mtime(), nanos) };
        let is_linked = self.text.preserve.links && found.is_file() && found.nlink() > 1;
        let linked = is_linked.then(|| (found.dev(), found.ino()));
        Some(Surveyed { selected: Selected { state, ..selected.clone() }, linked })
    }
}

fn note(list: &ListText, now: u64) -> Note {
    Note { list: list.digest.clone(), host: host(), pid: std::process::id(), at: now }
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
