//! Rules of requests to a far end.

use icdc_filter::Rule;
use icdc_units::ByteCount;

use super::names::{is_component, path};
use super::rules::{Checked, require};
use super::{owners, receipt, snapshot};
use crate::compression::{Compress, MAX_LEVEL};
use crate::limits::{
    MAX_BASES, MAX_DISKLESS_BYTES, MAX_HOST, MAX_LINK_DESTS, MAX_LINK_TARGETS, MAX_MODE_CHANGES, MAX_PATH,
    MAX_RING_BYTES, MAX_RULE_BYTES, MAX_RULES, MAX_SOURCES, MAX_STREAMS, MIN_DISKLESS_BYTES,
};
use crate::measure;
use crate::message::{
    Backup, ChangeRequest, Choice, DirectoryLinks, Diskless, Drive, Existing, Job, MaxDelete, Mirrored, Missing,
    ModeChange, Preserve, ReceiveOptions, SendOptions, TimeStamp, Transfer,
};

/// Checks a request to a far end.
pub(super) fn job(job: &Job) -> Checked {
    match job {
        Job::Transfer(transfer) => self::transfer(transfer),
        Job::Admit { job, .. } => self::transfer(job),
        Job::Join { stream } => further(*stream),
        Job::Drive(drive) => self::drive(drive),
        Job::DriveKey => Ok(()),
        Job::Measure(order) => measure::check_order(order),
        Job::List(request) => path(&request.path).and_then(|()| rules(&request.rules)),
        Job::Change(ChangeRequest::MakeDirectories { paths, .. } | ChangeRequest::Remove { paths, .. }) => {
            require(!paths.is_empty() && paths.len() <= MAX_SOURCES, "no path, or too many")?;
            paths.iter().try_for_each(|changed| path(changed))
        }
        Job::Change(ChangeRequest::Rename { from, to, .. }) => path(from).and_then(|()| path(to)),
    }
}

fn transfer(transfer: &Transfer) -> Checked {
    match transfer {
        Transfer::Receive { destination, options } => {
            path(destination)?;
            receive_options(options)
        }
        Transfer::Send { sources, options } => {
            source_paths(sources)?;
            listed_beneath(sources, options)?;
            send_options(options)
        }
    }
}

/// Checks the number of a connection after the first.
pub(super) fn further(stream: u8) -> Checked {
    require((1..MAX_STREAMS).contains(&stream), "a connection number out of bounds")
}

fn drive(drive: &Drive) -> Checked {
    host(&drive.host)?;
    require(drive.port != 0, "port 0")?;
    require(drive.ports.is_valid(), "a port range that is none")?;
    source_paths(&drive.sources)?;
    listed_beneath(&drive.sources, &drive.send)?;
    require(drive.send.diskless.is_none() && drive.receive.diskless.is_none(), "a drive without disks")?;
    send_options(&drive.send)?;
    path(&drive.destination)?;
    receive_options(&drive.receive)
}

/// Checks the form of a host name or address to connect to.
fn host(host: &str) -> Checked {
    require(!host.is_empty() && host.len() <= MAX_HOST, "a host name that is empty or too long")?;
    require(!host.starts_with('-'), "a host name that looks like an option")?;
    let proper = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:%[]".contains(&byte);
    require(host.bytes().all(proper), "a host name with characters that no host name or address has")
}

fn source_paths(sources: &[Vec<u8>]) -> Checked {
    require(!sources.is_empty(), "no source")?;
    require(sources.len() <= MAX_SOURCES, "too many sources")?;
    sources.iter().try_for_each(|source| path(source))
}

/// Checks that names to be copied are listed below one source only.
fn listed_beneath(sources: &[Vec<u8>], options: &SendOptions) -> Checked {
    require(options.listed.is_none() || sources.len() == 1, "listed names below several sources")
}

fn send_options(options: &SendOptions) -> Checked {
    choice(&options.choice)?;
    let streams = options.streams.unwrap_or(1);
    require((1..=MAX_STREAMS).contains(&streams), "no connection, or too many")?;
    measure::ceiling(options.rate)?;
    let level = if let Compress::Level(level) = options.compress { level } else { 1 };
    require((1..=MAX_LEVEL).contains(&level), "a level of compression out of bounds")?;
    require(!(options.moves && options.mirrored != Mirrored::No), "a move that deletes what the source does not have")?;
    require(options.listed.is_none() || options.mirrored == Mirrored::No, "a mirror of listed names")?;
    require(options.listed.is_none() || !options.moves, "a move of listed names")?;
    require(!(options.moves && options.copy_devices), "a move of devices")?;
    if let Some(diskless) = options.diskless {
        self::diskless(diskless)?;
        let own = SendOptions {
            rate: options.rate,
            congestion: options.congestion.clone(),
            streams: options.streams,
            diskless: options.diskless,
            preserve: Preserve::NOTHING,
            ..SendOptions::default()
        };
        require(*options == own, WITHOUT_DISKS)?;
    }
    measure::asked_congestion(options.congestion.as_deref())
}

fn choice(choice: &Choice) -> Checked {
    rules(&choice.rules)?;
    let times = [choice.newer_than, choice.older_than];
    let is_time = |time: TimeStamp| time.nanos < 1_000_000_000;
    require(times.into_iter().flatten().all(is_time), "nanoseconds of a second or more")
}

/// Checks number and lengths of rules over paths.
fn rules(rules: &[Rule]) -> Checked {
    require(rules.len() <= MAX_RULES, "too many rules over paths")?;
    require(rules.iter().all(|rule| rule.pattern.len() <= MAX_PATH), "a pattern too long")?;
    let bytes: usize = rules.iter().map(|rule| rule.pattern.len() + 4).sum();
    require(bytes <= MAX_RULE_BYTES, "rules over paths that are too long together")
}

const _: () = assert!(MAX_RING_BYTES == 64 << 30);

fn receive_options(options: &ReceiveOptions) -> Checked {
    let ring = options.ring.map_or(1, ByteCount::as_u64);
    require((1..=MAX_RING_BYTES).contains(&ring), "a ring of nothing, or of more than 64 GiB")?;
    if let Some(delete) = &options.delete {
        let is_limit = !matches!(delete.max, Some(MaxDelete::Percent(percent)) if percent > 100);
        require(is_limit, "a limit of more than 100 percent")?;
        rules(&delete.rules)?;
    }
    require(options.chmod.len() <= MAX_MODE_CHANGES, "too many changes of modes")?;
    require(options.chmod.iter().all(is_mode_change), "mode bits beyond 7777")?;
    owners::mapping(&options.owners)?;
    require(options.link_dest.len() <= MAX_LINK_DESTS, "too many reference directories")?;
    options.link_dest.iter().try_for_each(|directory| path(directory))?;
    directory_links(options)?;
    delta(options)?;
    backup(options)?;
    snapshot::options(options)?;
    receipt::options(options)?;
    device(options)?;
    in_place(options)?;
    let Some(diskless) = options.diskless else { return Ok(()) };
    self::diskless(diskless)?;
    // An end that may only measure does nothing else.
    let own = ReceiveOptions { diskless: options.diskless, preserve: Preserve::NOTHING, ..ReceiveOptions::default() };
    require(*options == own, WITHOUT_DISKS)
}

fn delta(options: &ReceiveOptions) -> Checked {
    require(
        !(options.delta && (options.whole_files || options.write_device)),
        "moved content of whole files or a device",
    )?;
    require(options.delta || options.bases.is_empty(), "bases of which no content is looked for")?;
    require(options.bases.len() <= MAX_BASES, "too many bases")?;
    options.bases.iter().try_for_each(|basis| path(basis))
}

fn directory_links(options: &ReceiveOptions) -> Checked {
    let Some(DirectoryLinks { into }) = &options.directory_links else { return Ok(()) };
    require(options.snapshot.is_none() && !options.receipt, "links to directories in a snapshot or a receipt")?;
    require(into.len() <= MAX_LINK_TARGETS, "too many directories that links may lead into")?;
    into.iter().try_for_each(|directory| path(directory))
}

/// Checks that what is written into a device has no options about names and files there.
fn device(options: &ReceiveOptions) -> Checked {
    if !options.write_device {
        return Ok(());
    }
    let replaces = options.existing == Existing::Replace && options.missing == Missing::Make;
    let is_alone = options.delete.is_none() && options.snapshot.is_none() && options.backup.is_none();
    require(replaces && is_alone && options.link_dest.is_empty(), "a device with options about existing files")?;
    require(options.directory_links.is_none(), "links to directories in a device")?;
    require(!options.preserve.sparse, "a device with holes")
}

/// Checks that files which are written at their place are not to be kept, nor read in another order.
fn in_place(options: &ReceiveOptions) -> Checked {
    if !options.in_place {
        return Ok(());
    }
    require(!options.write_device && !options.delta, "files in place with a device, or with moved content")?;
    let is_alone = options.snapshot.is_none() && options.backup.is_none() && options.link_dest.is_empty();
    require(is_alone && options.existing != Existing::Keep, "files in place that are to be kept")
}

fn backup(options: &ReceiveOptions) -> Checked {
    let Some(Backup { directory, suffix }) = options.backup.as_deref() else { return Ok(()) };
    require(options.snapshot.is_none(), "a snapshot that replaces something")?;
    require(suffix.is_empty() || is_component(&[b"x", suffix.as_slice()].concat()), "a suffix that no name has")?;
    match directory {
        Some(directory) => path(directory),
        None => require(!suffix.is_empty(), "a backup under the name of what replaces it"),
    }
}

/// Whether a change of modes is about permission bits only.
fn is_mode_change(change: &ModeChange) -> bool {
    change.kept <= 0o7777 && change.set <= 0o7777 && change.copied.is_none_or(|copied| copied.to <= 0o777)
}

/// Rule that a copy without disks breaks if it has options beyond its own.
const WITHOUT_DISKS: &str = "a copy without disks with options that it does not have";

/// Checks the length of the data of a copy without disks.
fn diskless(diskless: Diskless) -> Checked {
    let bounds = MIN_DISKLESS_BYTES..=MAX_DISKLESS_BYTES;
    require(
        bounds.contains(&diskless.length.as_u64()),
        "a copy without disks of less than 4 MiB, or of more than 8 TiB",
    )
}
