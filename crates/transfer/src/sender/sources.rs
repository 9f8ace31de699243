//! Finds and classifies the sources.

use std::collections::HashSet;
use std::sync::Arc;

use icdc_confine::files::Files;
use icdc_disk::tree::{Directory, Kind, Name, Stat, Tree, TreeError, is_staging};
use icdc_protocol::Features;
use icdc_protocol::message::{Begin, Digest, Problem, SendOptions, Source, SourceKind, TransferId};

use super::block_device::SourceDevice;
use super::examination::leaf;
use super::input::Input;
use super::listed::{AskedList, ListSource};
use super::selection::Selection;
use super::settled::Queue;
use crate::identity::Identities;
use crate::name_list::NameList;
use crate::path_text;
use crate::receipt::ReceiptSink;

/// Advice for the user about what may have been meant as a pattern.
const UNMATCHED: &str = "; if it is a pattern, nothing matches it there (on this host patterns are for the shell: leave the quotes \
                         out)";

/// Maximum number of sources that are confined one by one: each takes a descriptor.
const ONE_BY_ONE: usize = 64;

/// Reason for refusing a path that leads through the name of an unfinished file.
const UNFINISHED: &str = "its name is one that icdc keeps for unfinished files, which are not copied";

/// Reason for not copying a link to an open file.
const DESCRIPTOR: &str = ": standard input and <(COMMAND) are open files of this process, which have no name to copy; for \
                          standard input write - as the source, for others write the data to a file and name that";

/// Reason for not copying what is listed below a source.
const NOT_ABOVE: &str = ": is no directory, and the names of --files-from are below one";

/// A source that was found: its kind, its directory, and its name in that; no name if the contents
/// of the directory are copied.
#[derive(Clone)]
pub(crate) struct Root {
    pub(crate) source: Source,
    pub(crate) directory: Directory,
    pub(crate) name: Option<Name>,
    pub(crate) stat: Stat,
    /// The block device that the source is, which is sent as a file; `None` for any other source.
    pub(crate) device: Option<SourceDevice>,
}

impl Root {
    /// Length of what paths of this source's items have before their path from the transfer root:
    /// the source's name and a slash, where its contents are copied.
    pub(super) fn above_transfer_root(&self) -> usize {
        let length = self.source.name.len();
        if self.name.is_none() && length > 0 { length + 1 } else { 0 }
    }
}

/// The sources of a run as they were found, with what limits them (a selection, a list of names)
/// and what takes a receipt.
#[derive(Default)]
pub struct Sources {
    /// Id of the job for this host and these sources, see
    /// [`Begin::job`](icdc_protocol::message::Begin).
    pub(crate) job: Digest,
    /// All sources that were named, in the order of the command line: where items arrive depends
    /// on all of them.
    pub(crate) named: Vec<Source>,
    /// Sources that were found, with their index in `named`.
    pub(crate) roots: Vec<(u32, Root)>,
    /// Problems of the sources that were not found.
    pub(crate) problems: Vec<Problem>,
    /// Error of a source that could not be examined because this process has too many files open.
    /// The next run would have other sources, and would not find this one's journal.
    pub(crate) unseen: Option<String>,
    /// Part of the sources that is copied; `None` for everything.
    pub(crate) selection: Option<Arc<Selection>>,
    /// Origin of the names below the only source that are copied; `None` where the other end has
    /// the list, or for everything.
    pub(crate) listed: Option<ListSource<'static>>,
    /// Queue of what settles in the sources; `None` unless they are followed.
    pub(crate) settled: Option<Arc<Queue>>,
    /// The stream that is the only source; `None` for others.
    pub(crate) input: Option<Input>,
    /// Takes the receipt that the receiver is to give; `None` if none is.
    pub(crate) receipt: Option<Arc<dyn ReceiptSink>>,
    /// Features that the receiver must have for its own options.
    pub(crate) needs: Features,
    /// Features without which the copy is made in another way than the user asks, who is told.
    pub(crate) wishes: Features,
}

impl Sources {
    /// A stream, such as standard input, as the only source.
    #[must_use]
    pub fn stream(input: Input) -> Self {
        let job = *blake3::Hasher::new_derive_key("icdc job of a stream 1").finalize().as_bytes();
        let named = vec![Source { name: Vec::new(), kind: SourceKind::Stream, identity: None }];
        let needs = match input.from() {
            Some(_) => Features::STREAMS.union(Features::STREAM_PLACES),
            None => Features::STREAMS,
        };
        Self { job, named, input: Some(input), needs, ..Self::default() }
    }

    /// Limits the sources to the items that `selection` lists, the part that this run of several
    /// copies; `None` leaves all. Its id replaces the job's, so that an interrupted run is
    /// recognized on every host that has the selection.
    #[must_use]
    pub fn restricted_to(mut self, selection: Option<Arc<Selection>>) -> Self {
        if let Some(selection) = &selection {
            self.job = *blake3::Hasher::new_derive_key("icdc job of a selection 1")
                .update(selection.id())
                .finalize()
                .as_bytes();
        }
        self.selection = selection;
        self
    }

    /// Limits the sources to the names of a list in this process; `None` leaves all.
    #[must_use]
    pub fn listed(self, list: Option<NameList>) -> Self {
        Self { listed: list.map(ListSource::Own), ..self }
    }

    /// Limits the sources to the names of a list at another end, which is not the receiver; `None`
    /// leaves all.
    #[must_use]
    pub fn asked_for(self, list: Option<AskedList<'static>>) -> Self {
        Self { listed: list.map(ListSource::Asked), ..self }
    }

    /// Requests a receipt from the receiver, which `receipt` takes; `None` requests none.
    #[must_use]
    pub fn with_receipt(self, receipt: Option<Arc<dyn ReceiptSink>>) -> Self {
        Self { receipt, ..self }
    }

    /// Requires these features of the receiver, besides those for the sender's options.
    #[must_use]
    pub fn needing(self, needs: Features) -> Self {
        Self { needs: self.needs.union(needs), ..self }
    }

    /// Has the user told where the receiver lacks these features.
    #[must_use]
    pub fn wishing(self, wishes: Features) -> Self {
        Self { wishes, ..self }
    }

    /// Files that the sending end may read, and no others: each directory with everything beneath
    /// it, and each file. With more than [`ONE_BY_ONE`] sources, their siblings may be read, too. A
    /// move may also remove names in the directories of its sources, and beneath.
    pub(crate) fn files(&self, options: &SendOptions) -> Files {
        let is_long = self.roots.len() > ONE_BY_ONE;
        let mut seen = HashSet::new();
        let files = self.roots.iter().fold(Files::of_end(), |files, (_, root)| match &root.name {
            Some(_) if is_long => match root.directory.own_stat() {
                Ok(stat) if seen.insert((stat.dev, stat.ino)) => files.read(&root.directory),
                Ok(_) | Err(_) => files,
            },
            Some(name) => match root.directory.open_reference(name) {
                Ok(place) => files.read(&place),
                // It was removed, and there is nothing to read.
                Err(_) => files,
            },
            None => files.read(&root.directory),
        });
        if !options.moves {
            return files;
        }
        let mut seen = HashSet::new();
        self.roots.iter().fold(files, |files, (_, root)| match root.directory.own_stat() {
            Ok(stat) if seen.insert((stat.dev, stat.ino)) => files.remove(&root.directory),
            Ok(_) | Err(_) => files,
        })
    }

    /// First message of a session that sends these sources.
    pub(crate) fn begin(&self) -> Begin {
        let mut sources = self.named.clone();
        if let Some(identities) = Identities::of(&self.job) {
            for (number, root) in &self.roots {
                sources[*number as usize].identity = Some(identities.identity(&root.stat));
            }
        }
        Begin { job: self.job, sources }
    }

    /// Whether there is more than one item to send, so that the receiver keeps a journal of the
    /// run.
    pub(crate) fn is_run(&self) -> bool {
        self.named.len() > 1 || self.named.iter().any(|source| source.kind.is_directory())
    }
}

/// Finds and classifies the sources `paths` beneath `tree`; one that is missing becomes a problem
/// that the session reports. `run` is the run that reads them.
pub fn find(tree: &Tree, paths: &[Vec<u8>], options: &SendOptions, run: &TransferId) -> Sources {
    let mut job = blake3::Hasher::new_derive_key("icdc job 1");
    job.update(&host());
    job.update(&[options.preserve.links.into(), options.preserve.sparse.into()]);
    if let Some(list) = &options.listed {
        job.update(list);
    }
    let mut named = Vec::new();
    let mut roots = Vec::new();
    let mut problems = Vec::new();
    let (mut beside, mut unseen) = (None, None);
    for path in paths {
        match find_one(tree, path, &mut beside).and_then(|root| with_device(root, options, run)) {
            Ok(root) => {
                match obstacle(&root, path, options) {
                    Some(reason) => {
                        let reason = format!("{}{reason}", path_text(path));
                        problems.push(Problem { path: path.clone(), reason, error: true });
                    }
                    None => {
                        identify(&mut job, &root);
                        roots.push((named.len() as u32, root.clone()));
                    }
                }
                named.push(root.source);
            }
            Err(error) => {
                if matches!(error, TreeError::TooManyOpen { .. }) {
                    unseen.get_or_insert_with(|| error.to_string());
                }
                let pattern = error.is_missing() && path.iter().any(|byte| b"*?[".contains(byte));
                let hint = if pattern { UNMATCHED } else { "" };
                problems.push(Problem { path: path.clone(), reason: format!("{error}{hint}"), error: true });
                let name = path.rsplit(|byte| *byte == b'/').find(|component| !component.is_empty());
                if let Some(Ok(name)) = name.map(Name::new) {
                    named.push(Source { name: name.as_bytes().to_vec(), kind: SourceKind::Item, identity: None });
                }
            }
        }
    }
    Sources {
        job: *job.finalize().as_bytes(),
        named,
        roots,
        problems,
        unseen,
        selection: None,
        listed: None,
        settled: None,
        input: None,
        receipt: None,
        needs: Features::NONE,
        wishes: Features::NONE,
    }
}

/// This source, opened if it is a block device, or a link to one, and devices are read.
fn with_device(root: Root, options: &SendOptions, run: &TransferId) -> Result<Root, TreeError> {
    let may_be_device = options.copy_devices && matches!(root.stat.kind, Kind::Other(_) | Kind::Symlink);
    let (true, Some(name)) = (may_be_device, &root.name) else { return Ok(root) };
    let device = SourceDevice::open((&root.directory, name), run, options.buffered)?;
    let stat = device.as_ref().map_or(root.stat, |device| *device.stat());
    Ok(Root { device, stat, ..root })
}

/// Reason why a source that was found is not copied, behind its path; `None` if it is. It would
/// fail later, when something was made for it.
fn obstacle(root: &Root, path: &[u8], options: &SendOptions) -> Option<String> {
    if path.split(|byte| *byte == b'/').any(is_staging) {
        return Some(format!(": {UNFINISHED}"));
    }
    match (root.stat.kind, &root.name) {
        (Kind::Other(_), _) if root.device.is_none() => {
            if let Err(not_copied) = leaf(&root.stat, options.preserve) {
                return Some(format!(": {}", not_copied.of(Vec::new()).reason));
            }
        }
        (Kind::Symlink, Some(name)) if is_descriptor(&root.directory, name) => return Some(DESCRIPTOR.into()),
        _ => {}
    }
    let is_directory = root.source.kind == SourceKind::Contents;
    (options.listed.is_some() && !is_directory).then(|| NOT_ABOVE.into())
}

/// Whether a symbolic link refers to an open file of a process: `/dev/stdin`, `/dev/fd/63`.
fn is_descriptor(directory: &Directory, name: &Name) -> bool {
    const PROC: rustix::fs::FsWord = 0x9fa0;
    let is_number = name.as_bytes().iter().all(u8::is_ascii_digit);
    if is_number && rustix::fs::fstatfs(directory).is_ok_and(|found| found.f_type == PROC) {
        return true;
    }
    let tables: [&[u8]; 3] = [b"/dev/fd/", b"/proc/self/fd/", b"/proc/thread-self/fd/"];
    directory.read_link(name).is_ok_and(|target| tables.iter().any(|table| target.starts_with(table)))
}

/// Finds one source; `beside` remembers the directory of the one before, which is not opened again.
fn find_one(tree: &Tree, path: &[u8], beside: &mut Option<(Vec<u8>, Directory)>) -> Result<Root, TreeError> {
    let located = tree.resolve_beside(path, beside)?;
    let Some(name) = located.name.clone() else {
        let stat = located.directory.own_stat()?;
        // `/`, `.` and the like have no name of their own.
        let source = Source { name: Vec::new(), kind: SourceKind::Contents, identity: None };
        return Ok(Root { source, directory: located.directory, name: None, stat, device: None });
    };
    let stat = match located.stat {
        Some(stat) => stat,
        // Asked again, because the error says what is missing.
        None => located.directory.stat(&name)?,
    };
    let is_directory = stat.kind == Kind::Directory;
    if located.trailing_slash && (is_directory || stat.kind == Kind::Symlink) {
        let directory = located.open_directory()?;
        let stat: Stat = directory.own_stat()?;
        let source = Source { name: name.as_bytes().to_vec(), kind: SourceKind::Contents, identity: None };
        return Ok(Root { source, directory, name: None, stat, device: None });
    }
    let kind = if is_directory { SourceKind::Directory } else { SourceKind::Item };
    let source = Source { name: name.as_bytes().to_vec(), kind, identity: None };
    Ok(Root { source, directory: located.directory, name: Some(name), stat, device: None })
}

/// Adds a source to the digest of the job, by which an interrupted run of the same sources is
/// recognized.
fn identify(job: &mut blake3::Hasher, root: &Root) {
    // The directory by its inode: the same sources are known again however their path is written.
    let place = root.directory.own_stat().map_or((0, 0), |stat| (stat.dev, stat.ino));
    job.update(&place.0.to_le_bytes()).update(&place.1.to_le_bytes());
    job.update(&[root.source.kind as u8]);
    job.update(&(root.source.name.len() as u64).to_le_bytes()).update(&root.source.name);
}

/// Identifier of this host: differs from host to host and stays the same on one.
fn host() -> Vec<u8> {
    std::fs::read("/etc/machine-id").unwrap_or_else(|_| rustix::system::uname().nodename().to_bytes().to_vec())
}
