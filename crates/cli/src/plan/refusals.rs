//! Options that are refused: they have no effect in this copy, or ask for what cannot be had.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use anyhow::{bail, ensure};
use icdc_protocol::limits::{MAX_BASES, MAX_LINK_DESTS, MAX_LINK_TARGETS, MAX_MODE_CHANGES, MAX_PATH};
use icdc_protocol::message::Compress;
use icdc_protocol::validate::is_component;

use crate::applies::{Concern, Hosts, Mismatch};
use crate::arguments::CopyArguments;
use crate::chmod::gives_set_id;
use crate::config::settings::concern;
use crate::route::Route;

/// Refuses options that say what counts as equal in a copy that skips nothing for being equal.
pub(super) fn refuse_equality(arguments: &CopyArguments) -> anyhow::Result<()> {
    let given = [("--size-only", arguments.size_only), ("--checksum", arguments.checksum)];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) if !arguments.skip_equal && !arguments.update => bail!(
            "{option} says what counts as equal, and without --skip-equal or --update everything is copied: give one of them, or use \
             icdc sync"
        ),
        _ => Ok(()),
    }
}

/// Refuses devices where equal size and time would count as equal, streams and several sources for a device.
pub(super) fn refuse_devices(arguments: &CopyArguments) -> anyhow::Result<()> {
    let skips = arguments.skip_equal || arguments.update;
    ensure!(
        !(arguments.copy_devices && skips && !arguments.checksum),
        "--copy-devices: size and time of a device do not tell what is in it; add --checksum, which compares contents, or use icdc \
         copy without --skip-equal and --update"
    );
    ensure!(
        !(arguments.write_device && skips),
        "--write-device writes into a device, which has no time by which it could be equal: use icdc copy, without --skip-equal; what \
         is equal in the device is not sent in any case"
    );
    let sources = arguments.places.len().saturating_sub(1);
    ensure!(
        !(arguments.write_device && sources > 1),
        "--write-device writes one file into a device, and {sources} sources are named: name one"
    );
    let is_stream = arguments.places.iter().any(|place| place == "-");
    ensure!(
        !(arguments.write_device && is_stream),
        "--write-device needs a source with a size, and a device, so - is neither: name a file and a device"
    );
    Ok(())
}

/// Refuses changes of modes that have no effect, or give rights that travel with an owner only.
pub(super) fn refuse_mode_changes(arguments: &CopyArguments) -> anyhow::Result<()> {
    let changes: Vec<_> = arguments.chmod.iter().flat_map(|changes| changes.0.iter().copied()).collect();
    ensure!(
        changes.is_empty() || arguments.preserve.mode,
        "--chmod changes modes, and --preserve leaves them out: add mode to its list"
    );
    ensure!(changes.len() <= MAX_MODE_CHANGES, "--chmod: at most {MAX_MODE_CHANGES} changes can be made");
    ensure!(
        arguments.preserve.owner || !gives_set_id(&changes),
        "--chmod: set-id bits of files go with the owner only: write D before them, or add owner to --preserve"
    );
    Ok(())
}

/// Refuses paths of `--link-dest`, `--dirlinks-into` and `--basis` that are too many, or no paths.
pub(super) fn refuse_directories(arguments: &CopyArguments) -> anyhow::Result<()> {
    let given = [
        ("--link-dest", &arguments.link_dest, MAX_LINK_DESTS),
        ("--dirlinks-into", &arguments.dirlinks_into, MAX_LINK_TARGETS),
        ("--basis", &arguments.basis, MAX_BASES),
    ];
    for (option, directories, most) in given {
        let number = directories.len();
        ensure!(number <= most, "{option}: {number} paths are too many; name at most {most}");
        let is_path = |directory: &OsString| !directory.is_empty() && directory.len() <= MAX_PATH;
        ensure!(directories.iter().all(is_path), "{option}: give a path of at most {MAX_PATH} bytes");
    }
    Ok(())
}

/// Refuses values of `--backup-dir` and `--suffix` that are no path or no end of a name.
pub(super) fn refuse_backups(arguments: &CopyArguments) -> anyhow::Result<()> {
    if let Some(directory) = &arguments.backup_dir {
        let is_path = !directory.is_empty() && directory.len() <= MAX_PATH;
        ensure!(is_path, "--backup-dir: name a directory by a path of at most {MAX_PATH} bytes");
    }
    if let Some(suffix) = &arguments.suffix {
        let is_part = is_component(&[b"x", suffix.as_bytes()].concat()) && !suffix.is_empty();
        ensure!(is_part, "--suffix: give some bytes that a name can end in, without a slash, such as .old");
    }
    Ok(())
}

/// Refuses options on connections in a copy that makes none, or whose connections are not this
/// host's.
pub(super) fn refuse_without_effect(arguments: &CopyArguments, hosts: Hosts) -> anyhow::Result<()> {
    let given = [
        ("--streams", arguments.streams.0.is_some(), "is a number of TCP connections"),
        ("--cc", arguments.cc.0.is_some(), "is TCP's congestion control"),
        ("--compress", matches!(arguments.compress, Compress::Level(_)), "is for data that crosses a network"),
        ("--port", arguments.connection.port.is_some(), "names ports for data connections"),
    ];
    let crossing = [
        ("--background", arguments.background),
        ("--basis", !arguments.basis.is_empty()),
        ("--delta", arguments.delta),
    ];
    let is_within_host = concern("cc").mismatch(hosts, &arguments.connection.via) == Some(Mismatch::NoRemoteHost);
    for (option, is_given) in crossing {
        ensure!(
            !(is_given && is_within_host),
            "{option} is for data that crosses a network, and a copy within this host makes no connection: leave it out"
        );
    }
    for (option, is_given, meaning) in given {
        let mismatch = concern(&option[2..]).mismatch(hosts, &arguments.connection.via);
        ensure!(
            !is_given || mismatch != Some(Mismatch::NoRemoteHost),
            "{option} {meaning}, and a copy within this host makes no connection: leave it out"
        );
    }
    let of_tcp = [
        ("--background", arguments.background),
        ("--cc", arguments.cc.0.is_some()),
        ("--scitags", arguments.reporting.scitags.is_some()),
    ];
    for (option, is_given) in of_tcp {
        ensure!(
            !(is_given && arguments.connection.via == Route::Udp),
            "{option} is for TCP connections, and --via udp makes none: leave one of the two out"
        );
    }
    ensure!(
        arguments.reporting.scitags.is_none()
            || Concern::OwnConnections.mismatch(hosts, &arguments.connection.via).is_none(),
        "--scitags marks data connections of this host, and it makes none in this copy: leave it out"
    );
    Ok(())
}
