//! Options of both ends, from a copy's command line.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use anyhow::Context;
use icdc_filter::Rule;
use icdc_protocol::message::{
    Backup, Choice, Compress, Delete, DirectoryLinks, Equality, Existing, IfRunning, Mirrored, Missing, Preserve,
    ReceiveOptions, SendOptions, Snapshot, SnapshotTime,
};

use crate::arguments::{CopyArguments, IfRunningMode};
use crate::clock::seconds_since_1970;

/// The sending end's options, from a copy's command line.
pub(super) fn sending(arguments: &CopyArguments, choice: Choice) -> SendOptions {
    SendOptions {
        choice,
        preserve: preserve(arguments),
        rate: arguments.rate.now(),
        congestion: arguments.cc.0.clone(),
        streams: arguments.streams.0,
        dry_run: arguments.dry_run,
        // Others read the same.
        buffered: arguments.buffered || arguments.one_of_several.is_some(),
        diskless: None,
        mirrored: match (arguments.delete, arguments.delete_excluded) {
            _ if arguments.snapshot => Mirrored::Snapshot,
            (false, _) => Mirrored::No,
            (true, false) => Mirrored::KeepingExcluded,
            (true, true) => Mirrored::WithExcluded,
        },
        moves: arguments.moves,
        listed: None,
        prune_empty_dirs: arguments.prune_empty_dirs,
        owner_names: false,
        known_digests: uses_known_digests(arguments),
        background: arguments.background,
        compress: if arguments.compress_auto { Compress::Auto } else { arguments.compress },
        copy_devices: arguments.copy_devices,
    }
}

/// Metadata that is preserved besides the data. A device gets zeros in place of holes.
fn preserve(arguments: &CopyArguments) -> Preserve {
    Preserve { sparse: arguments.preserve.sparse && !arguments.write_device, ..arguments.preserve }
}

/// The receiving end's options, from a copy's command line.
pub(super) fn receiving(arguments: &CopyArguments, rules: &[Rule]) -> ReceiveOptions {
    ReceiveOptions {
        verify: arguments.verify || arguments.write_device,
        resume: !arguments.no_resume,
        existing: existing(arguments),
        if_running: match arguments.if_running {
            IfRunningMode::Wait => IfRunning::Wait,
            IfRunningMode::Skip => IfRunning::Skip,
            IfRunningMode::Fail => IfRunning::Fail,
        },
        mkpath: arguments.mkpath,
        preserve: preserve(arguments),
        ring: arguments.ring,
        dry_run: arguments.dry_run,
        buffered: arguments.buffered,
        diskless: None,
        place: None,
        keeps_name: false,
        // A snapshot has nothing of an interrupted run that is no longer at the source.
        delete: (arguments.delete || arguments.snapshot && !arguments.dry_run).then(|| Delete {
            rules: if arguments.delete_excluded || arguments.snapshot { Vec::new() } else { rules.to_vec() },
            max: arguments.max_delete,
            allow_empty_source: arguments.yes_empty,
        }),
        link_dest: arguments.link_dest.iter().map(|directory| directory.as_bytes().to_vec()).collect(),
        missing: if arguments.existing { Missing::LeaveOut } else { Missing::Make },
        snapshot: None,
        backup: backup(arguments).map(Box::new),
        receipt: false,
        chmod: arguments.chmod.iter().flat_map(|changes| changes.0.iter().copied()).collect(),
        owners: Box::default(),
        whole_files: arguments.whole_file,
        directory_links: directory_links(arguments),
        known_digests: uses_known_digests(arguments),
        write_device: arguments.write_device,
        delta: arguments.delta || !arguments.basis.is_empty(),
        bases: arguments.basis.iter().map(|path| path.as_bytes().to_vec()).collect(),
        in_place: arguments.in_place,
    }
}

/// Options of the snapshot that is asked for, which is named by the present time.
pub(super) fn snapshot(arguments: &CopyArguments) -> anyhow::Result<Snapshot> {
    let time = SnapshotTime::new(seconds_since_1970()).context("the clock is beyond the year 9999; set it")?;
    Ok(Snapshot { time, keep: arguments.keep })
}

/// Whether files are compared by digests, and those that earlier runs have kept count.
fn uses_known_digests(arguments: &CopyArguments) -> bool {
    arguments.checksum && !arguments.verify && !arguments.no_digest_cache
}

/// Links to directories that are kept, from a copy's command line; `None` if none is followed.
fn directory_links(arguments: &CopyArguments) -> Option<DirectoryLinks> {
    let into = || arguments.dirlinks_into.iter().map(|directory| directory.as_bytes().to_vec()).collect();
    arguments.keep_dirlinks.then(|| DirectoryLinks { into: into() })
}

/// Place of replaced and deleted items, from a copy's command line; `None` if they are not kept.
fn backup(arguments: &CopyArguments) -> Option<Backup> {
    let bytes = |value: &OsString| value.as_bytes().to_vec();
    let (directory, suffix) = (arguments.backup_dir.as_ref().map(bytes), arguments.suffix.as_ref().map(bytes));
    let is_given = directory.is_some() || suffix.is_some();
    is_given.then(|| Backup { directory, suffix: suffix.unwrap_or_default() })
}

/// Treatment of files that exist at the destination, from a copy's command line.
fn existing(arguments: &CopyArguments) -> Existing {
    let equality = match (arguments.size_only, arguments.checksum) {
        (true, _) => Equality::Size,
        (false, true) => Equality::Contents,
        (false, false) => Equality::SizeAndTime,
    };
    // Following starts again with all that is there. What a move had published, the journal tells by its contents.
    let skip_equal = arguments.skip_equal || arguments.following.follow && !arguments.moves;
    match (arguments.ignore_existing, arguments.update, skip_equal) {
        (true, ..) => Existing::Keep,
        (false, true, _) => Existing::Update(equality),
        (false, false, true) => Existing::SkipEqual(equality),
        (false, false, false) => Existing::Replace,
    }
}
