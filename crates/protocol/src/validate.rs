//! Rules that a message must keep before it is accepted.
//!
//! Every bound of [`crate::limits`] and every rule that concerns one message alone. Rules about the
//! course of the session (consecutive ids, open directories, sizes as announced) are checked where
//! that state is kept.

mod blocks;
mod change;
mod deletion;
mod delta;
mod job;
mod listed;
mod listing;
mod names;
mod owners;
mod receipt;
mod rules;
mod snapshot;

use crate::basis::{Basis, LEAVES};
use crate::limits::{
    BLOCK_SIZE, MAX_ADDRESSES, MAX_BASIS_BLOCKS, MAX_CANDIDATES, MAX_ENTRIES, MAX_FILE_SIZE, MAX_HELD, MAX_NOTICED,
    MAX_PACK_ITEMS, MAX_PAYLOAD, MAX_SHOWN_PATH, MAX_SOURCES, MAX_STAGES, MAX_STREAMS, MAX_TEXT, PACK_FILE_LIMIT,
};
use crate::measure;
use crate::message::{
    BlockHeader, Bootstrap, CandidatePlace, Candidates, Compressed, Compressible, Congestion, ConnectBack,
    DeviceNumber, Entry, EntryKind, FarTask, Goodbye, Held, Job, Message, Notice, PackItem, Parent, Part, Problem,
    Refusal, Running, Source, SourceKind, Streamed, Wants,
};
use blocks::{block_number, block_ranges};
use names::{path, xattrs};
use rules::{Checked, require, text};

pub use names::is_component;

/// The rule that a message from the other end breaks, with the message's name and, if it is about
/// one, the entry's id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; if both ends run the same release of icdc, please report it", self.describe())]
pub struct Violation {
    message: &'static str,
    rule: &'static str,
    entry: Option<u32>,
}

impl Violation {
    /// Names message, entry and rule, for the user.
    fn describe(&self) -> String {
        let Self { message, rule, entry } = self;
        match entry {
            Some(id) => format!("{message} of entry {id}: {rule}"),
            None => format!("{message}: {rule}"),
        }
    }
}

/// Checks a message whose frame has a payload of `payload_length` bytes.
///
/// # Errors
/// The first rule that the message breaks.
pub fn message(message: &Message, payload_length: usize) -> Result<(), Violation> {
    let (name, outcome) = match message {
        Message::Block(header) => {
            return in_message("Block", Some(header.id), block(header, payload_length));
        }
        Message::Difference(header) => {
            return in_message("Difference", Some(header.id), difference(header, payload_length));
        }
        Message::Assembled(assembled) => {
            let id = Some(assembled.header.id);
            return in_message("Assembled", id, delta::assembled(assembled, payload_length));
        }
        Message::Part(part) => return in_message("Part", Some(part.id), self::part(part, payload_length)),
        Message::Pack(items) => return in_message("Pack", None, pack(items, payload_length)),
        Message::Compressed(compressed) => {
            return in_message("Compressed", None, self::compressed(compressed, payload_length));
        }
        Message::Entries(entries) => {
            require_no_payload(payload_length).map_err(|rule| violation("Entries", None, rule))?;
            return self::entries(entries);
        }
        Message::Request(request) => ("Request", job::job(&request.job)),
        Message::Refused(refusal) => ("Refused", self::refusal(refusal)),
        Message::Begin(begin) => ("Begin", self::sources(&begin.sources)),
        Message::Sources(sources) => ("Sources", self::sources(sources)),
        Message::FileEnd(end) => {
            ("FileEnd", end.outcome.as_ref().map_or_else(|given_up| text(&given_up.reason), |_| Ok(())))
        }
        Message::StreamEnd(end) => ("StreamEnd", streamed(&end.streamed)),
        Message::Problem(problem) => ("Problem", self::problem(problem)),
        Message::Congestion(congestion) => ("Congestion", self::congestion(congestion)),
        Message::Goodbye(goodbye) => ("Goodbye", self::goodbye(goodbye)),
        Message::Ready(ready) => ("Ready", require(ready.ring_blocks > 0, "the ring has no block")),
        Message::Held(held) => ("Held", self::held(held)),
        Message::Wants(wants) => ("Wants", self::wants(wants)),
        Message::Resend { index, .. } => ("Resend", block_number(*index)),
        Message::Basis(basis) => ("Basis", self::basis(basis)),
        Message::Chunks(chunks) => ("Chunks", delta::chunks(chunks)),
        Message::Holes { blocks, .. } => ("Holes", require(blocks.len() <= MAX_BASIS_BLOCKS, "too many blocks")),
        Message::Done(items) => (
            "Done",
            require(items.len() <= MAX_ENTRIES, "too many items")
                .and_then(|()| items.iter().try_for_each(|item| outcome_text(&item.outcome))),
        ),
        Message::Abort(refusal) => ("Abort", self::refusal(refusal)),
        Message::Bootstrap(bootstrap) => ("Bootstrap", self::bootstrap(bootstrap)),
        Message::Listening(listening) => ("Listening", text(&listening.version)),
        Message::Accepted(_) => ("Accepted", Ok(())),
        Message::MaxRate { bytes_per_second } => ("MaxRate", require(*bytes_per_second > 0, "a rate of zero")),
        Message::DirEnd { .. } => ("DirEnd", Ok(())),
        Message::Totals(_) => ("Totals", Ok(())),
        Message::End => ("End", Ok(())),
        Message::Feedback(_) => ("Feedback", Ok(())),
        Message::Ping => ("Ping", Ok(())),
        Message::UserCeiling(_) => ("UserCeiling", Ok(())),
        Message::KeyCeiling(_) => ("KeyCeiling", Ok(())),
        Message::StreamFrom { bytes } => (
            "StreamFrom",
            require(*bytes <= MAX_FILE_SIZE && bytes.is_multiple_of(BLOCK_SIZE as u64), "no whole blocks of a file"),
        ),
        Message::StreamDurable { bytes } => {
            ("StreamDurable", require((1..=MAX_FILE_SIZE).contains(bytes), "no part of a file"))
        }
        Message::InPlace { .. } => ("InPlace", Ok(())),
        Message::DatagramsWanted => ("DatagramsWanted", Ok(())),
        Message::Confirmed => ("Confirmed", Ok(())),
        Message::Left { connection, .. } => ("Left", job::further(*connection)),
        Message::Interrupt => ("Interrupt", Ok(())),
        Message::Relay(_) => ("Relay", Ok(())),
        Message::Measure(message) => ("Measure", measure::check_control(message)),
        Message::ConnectBack(order) => ("ConnectBack", connect_back(order)),
        Message::NotConnected { reason, .. } => ("NotConnected", text(reason)),
        Message::Notice(notice) => ("Notice", self::notice(notice)),
        Message::Running(running) => ("Running", running.as_ref().map_or(Ok(()), self::running)),
        Message::Placed(_) => ("Placed", Ok(())),
        Message::LeftOut { what, .. } => ("LeftOut", deletion::left_out(what)),
        Message::Deletion(news) => ("Deletion", deletion::deletion(news)),
        Message::List(message) => ("List", listing::message(message)),
        Message::Snapshot(news) => ("Snapshot", snapshot::news(news)),
        Message::Change(message) => ("Change", change::message(message)),
        Message::OwnerNames(names) => ("OwnerNames", owners::names(names)),
        Message::Receipt(part) => ("Receipt", receipt::part(part)),
        Message::PassedReceipt(part) => ("PassedReceipt", receipt::passed(part)),
        Message::Removed(items) => ("Removed", deletion::changed(items)),
        Message::NamesWanted { .. } => ("NamesWanted", Ok(())),
        Message::Names(part) => ("Names", listed::names(part)),
        Message::Candidates(candidates) => ("Candidates", self::candidates(candidates)),
        Message::CandidateAnswer(_) => ("CandidateAnswer", Ok(())),
        Message::Connections { wanted } => {
            ("Connections", require((1..=MAX_STREAMS).contains(wanted), "no connection, or too many"))
        }
    };
    in_message(name, None, outcome.and_then(|()| require_no_payload(payload_length)))
}

/// Checks a job before it is requested, with the rules of the other end.
///
/// # Errors
/// The rule that the job breaks.
pub fn job(job: &Job) -> Result<(), &'static str> {
    job::job(job)
}

/// Shortens a text for a message to at most [`MAX_TEXT`] bytes, at a character boundary.
#[must_use]
pub fn clip(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

/// The violation of a rule by the message of this name.
fn violation(message: &'static str, entry: Option<u32>, rule: &'static str) -> Violation {
    Violation { message, rule, entry }
}

/// Adds the message's name, and the entry's id if there is one, to a broken rule.
fn in_message(message: &'static str, entry: Option<u32>, checked: Checked) -> Result<(), Violation> {
    checked.map_err(|rule| violation(message, entry, rule))
}

/// Checks that a message that carries no data has no payload.
fn require_no_payload(payload_length: usize) -> Checked {
    require(payload_length == 0, "it has a payload, which only Block, Difference, Assembled, Part and Pack may have")
}

/// Checks a block of a file, whose payload has data: all of it, or that of its ranges.
fn block(header: &BlockHeader, payload_length: usize) -> Checked {
    require(payload_length > 0, "it has no data")?;
    if header.ranges.is_empty() {
        block_number(header.index)?;
        return require(payload_length <= BLOCK_SIZE, "more data than a block holds");
    }
    difference(header, payload_length)
}

/// Checks a block of which the payload is the data of its ranges.
fn difference(header: &BlockHeader, payload_length: usize) -> Checked {
    require(payload_length <= BLOCK_SIZE, "more data than a block holds")?;
    let sum = block_ranges(header)?;
    require(sum == payload_length as u64, "data ranges that do not add up to the payload")
}

/// Checks a description of the receiver's file: numbers of blocks and of leaves.
fn basis(basis: &Basis) -> Checked {
    require(basis.blocks.len() <= MAX_BASIS_BLOCKS, "too many blocks")?;
    require(basis.blocks.iter().all(|leaves| leaves.len() <= LEAVES), "more leaves than a block has")?;
    require(!basis.blocks.is_empty() || basis.complete, "it describes nothing")?;
    let end = basis.first.checked_add(basis.blocks.len() as u32);
    require(end.is_some(), "a block number that no file reaches")
}

/// Checks that the payload is the data of this part of its block.
fn part(part: &Part, payload_length: usize) -> Checked {
    block_number(part.index)?;
    require(part.length as usize <= BLOCK_SIZE, "more data than a block holds")?;
    require(payload_length > 0, "it has no data")?;
    require(payload_length == part.range().len(), "data that is not that of the part")
}

/// Checks that the payload is shorter than what it stands for, and the latter as though it had come as it is.
fn compressed(compressed: &Compressed, payload_length: usize) -> Checked {
    let length = compressed.length as usize;
    require(length <= MAX_PAYLOAD, "more data than a block holds")?;
    require((1..length).contains(&payload_length), "data that is not shorter than what it stands for")?;
    match &compressed.of {
        Compressible::Block(header) => block(header, length),
        Compressible::Difference(header) => difference(header, length),
        Compressible::Pack(items) => pack(items, length),
        Compressible::Assembled(assembled) => delta::assembled(assembled, length),
    }
}

/// Checks that the payload is the data of these small files.
fn pack(items: &[PackItem], payload_length: usize) -> Checked {
    require(!items.is_empty(), "it has no files")?;
    require(items.len() <= MAX_PACK_ITEMS, "too many files")?;
    require(items.iter().all(|item| u64::from(item.length) <= PACK_FILE_LIMIT), "a file too large to be packed")?;
    let sum: u64 = items.iter().map(|item| u64::from(item.length)).sum();
    require(sum == payload_length as u64, "files that do not add up to the payload")
}

/// Checks announced entries one by one, and that their ids are consecutive.
fn entries(entries: &[Entry]) -> Result<(), Violation> {
    in_message("Entries", None, require(entries.len() <= MAX_ENTRIES, "too many entries"))?;
    let mut expected = entries.first().map(|entry| entry.id);
    for entry in entries {
        let consecutive = require(expected == Some(entry.id), "ids that are not consecutive");
        in_message("Entries", Some(entry.id), consecutive.and_then(|()| self::entry(entry)))?;
        expected = entry.id.checked_add(1);
    }
    Ok(())
}

fn entry(entry: &Entry) -> Checked {
    match entry.parent {
        Parent::Source(number) => {
            require((number as usize) < MAX_SOURCES, "a source number out of bounds")?;
            require(entry.name.is_empty(), "a name beside that of its source")?;
        }
        Parent::Directory(parent) => {
            require(parent < entry.id, "a directory that comes after its child")?;
            require(is_component(&entry.name), "a name that is not one component of a path")?;
        }
    }
    match &entry.kind {
        EntryKind::File { size, .. } => require(*size <= MAX_FILE_SIZE, "a file too large")?,
        EntryKind::Directory | EntryKind::Stream => {}
        EntryKind::Symlink { target } => {
            require(!target.is_empty(), "a symbolic link to nothing")?;
            path(target)?;
        }
        EntryKind::HardLink { to, size, .. } => {
            require(*to < entry.id, "a hard link to a later entry")?;
            require(*size <= MAX_FILE_SIZE, "a file too large")?;
        }
        EntryKind::Special(special) => {
            require(special.device().is_none_or(DeviceNumber::is_valid), "a device number that Linux does not have")?;
        }
    }
    require(entry.mode <= 0o7777, "mode bits beyond 7777")?;
    nanos(entry.mtime_nanos)?;
    if let Some((user, group)) = entry.owner {
        // The kernel takes this number for "leave it as it is".
        require(user != u32::MAX && group != u32::MAX, "an owner that is not a user's or group's number")?;
    }
    xattrs(&entry.xattrs)
}

/// Checks the size and time of a stream that has ended.
fn streamed(streamed: &Streamed) -> Checked {
    require(streamed.size <= MAX_FILE_SIZE, "a file too large")?;
    nanos(streamed.mtime_nanos)
}

/// Checks that these nanoseconds are less than a second.
fn nanos(nanos: u32) -> Checked {
    require(nanos < 1_000_000_000, "nanoseconds beyond a second")
}

fn sources(sources: &[Source]) -> Checked {
    require(!sources.is_empty(), "no source")?;
    require(sources.len() <= MAX_SOURCES, "too many sources")?;
    sources.iter().try_for_each(|Source { name, kind, .. }| {
        // What is placed without its name may lack one: `/` and `.` do.
        let nameless = matches!(kind, SourceKind::Contents | SourceKind::Stream) && name.is_empty();
        require(nameless || is_component(name), "a source name that is not one component of a path")
    })
}

fn problem(problem: &Problem) -> Checked {
    require(problem.path.len() <= MAX_SHOWN_PATH, "a path too long")?;
    require(!problem.path.contains(&0), "a path with a NUL")?;
    text(&problem.reason)
}

fn notice(notice: &Notice) -> Checked {
    require(notice.first.len() <= MAX_NOTICED, "too many paths")?;
    require(notice.count >= notice.first.len() as u64, "fewer items than paths")?;
    require(notice.first.iter().all(|path| path.len() <= MAX_SHOWN_PATH), "a path too long")?;
    require(notice.first.iter().all(|path| !path.contains(&0)), "a path with a NUL")
}

fn running(running: &Running) -> Checked {
    require(running.path.len() <= MAX_SHOWN_PATH, "a path too long")?;
    require(!running.path.contains(&0), "a path with a NUL")
}

fn goodbye(goodbye: &Goodbye) -> Checked {
    require(goodbye.limited_by.len() <= MAX_STAGES, "too many stages")?;
    goodbye.limited_by.iter().try_for_each(|(stage, _)| text(stage))
}

fn congestion(congestion: &Congestion) -> Checked {
    measure::congestion(&congestion.name)?;
    text(&congestion.instead)
}

fn held(held: &Held) -> Checked {
    require(!held.values.is_empty(), "no blocks")?;
    require(held.values.len() <= MAX_HELD, "too many blocks")?;
    let last = u64::from(held.first) + held.values.len() as u64 - 1;
    require(last < u64::from(u32::MAX), "a block number that no file reaches")
}

fn wants(wants: &Wants) -> Checked {
    require(!wants.answers.is_empty(), "no answers")?;
    require(wants.answers.len() <= MAX_ENTRIES, "too many answers")?;
    let last = u64::from(wants.first) + wants.answers.len() as u64 - 1;
    require(last <= u64::from(u32::MAX), "answers beyond the last id")
}

fn candidates(candidates: &Candidates) -> Checked {
    require(candidates.places.len() <= MAX_CANDIDATES, "too many candidates")?;
    candidates.places.iter().try_for_each(|CandidatePlace { source, path }| {
        require((*source as usize) < MAX_SOURCES, "a source number out of bounds")?;
        require(path.len() <= MAX_SHOWN_PATH, "a path too long")?;
        let mut components = path.split(|byte| *byte == b'/');
        require(components.all(is_component), "a path with something that is no component of one")
    })
}

fn bootstrap(bootstrap: &Bootstrap) -> Checked {
    text(&bootstrap.version)?;
    require(bootstrap.versions.is_range(), "a range of versions that is none")?;
    match bootstrap.task {
        FarTask::Serve { ports, .. } => require(ports.is_valid(), "a port range that is none")?,
        FarTask::Forward { port } => require(port > 0, "no port to forward to")?,
        FarTask::Drive => {}
    }
    require(matches!(bootstrap.family, 0 | 4 | 6), "an address family that is neither 4, 6 nor 0")
}

fn connect_back(order: &ConnectBack) -> Checked {
    require(order.addresses.len() <= MAX_ADDRESSES, "too many addresses")?;
    require(order.port > 0, "no port to connect to")
}

fn refusal(refusal: &Refusal) -> Checked {
    text(&refusal.reason)
}

/// Checks the length of the reason in a failed outcome.
fn outcome_text<T>(outcome: &Result<T, String>) -> Checked {
    outcome.as_ref().map_or_else(|reason| text(reason), |_| Ok(()))
}
