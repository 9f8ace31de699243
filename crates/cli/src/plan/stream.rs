//! Standard input as the only source of a copy, and standard output as its destination.

use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, stdin, stdout};
use std::os::fd::AsFd;

use anyhow::{Context, bail, ensure};
use icdc_client::Location;
use icdc_transfer::receiver::Output;
use icdc_transfer::sender::Input;
use rustix::fs::{OFlags, fcntl_getfl, fstat, stat};

use crate::arguments::CopyArguments;

/// The name of standard input as a source, and of standard output as a destination. A file of this name is
/// `./-`.
const NAME: &str = "-";

/// Standard input, if it is the source; `None` if not.
///
/// # Errors
/// Other sources or options that a stream cannot be combined with, and standard input that is a terminal.
pub(super) fn input(arguments: &CopyArguments, sources: &[OsString]) -> anyhow::Result<Option<Input>> {
    if !sources.iter().any(|source| source == NAME) {
        ensure!(arguments.resume_stream.is_none(), "--resume-stream is for standard input: name - as the source");
        return Ok(None);
    }
    ensure!(
        sources.len() == 1,
        "- is standard input, which is copied alone: name no other source (a file of this name is ./-)"
    );
    refuse_options(arguments, "standard input (-)")?;
    ensure!(
        !arguments.choosing.rules.reads_stdin(),
        "rules and the data cannot both come from standard input: name a file of rules"
    );
    let input = stdin();
    ensure!(
        !is_closed(&input),
        "standard input is closed (or /dev/null, open for writing as well): give it a file or a pipe, or name what to copy"
    );
    ensure!(!input.is_terminal(), "standard input is a terminal: give it a file or a pipe, or name what to copy");
    let input = input.as_fd().try_clone_to_owned().context("standard input cannot be read")?;
    let input = Input::new(File::from(input));
    Ok(Some(match arguments.resume_stream {
        Some(from) => input.continued(from),
        None => input,
    }))
}

/// Standard output, if it is the destination; `None` if not.
///
/// # Errors
/// Sources and options that a stream cannot be combined with, and standard output that is a terminal.
pub(super) fn output(
    arguments: &CopyArguments,
    sources: &[Location],
    destination: &Location,
) -> anyhow::Result<Option<Output>> {
    if !matches!(destination, Location::Local(path) if path.as_os_str() == NAME) {
        return Ok(None);
    }
    let [Location::Ssh { .. } | Location::Daemon { .. }] = sources else {
        bail!(
            "- as the destination is standard output, which takes one file of another host: name that file, or for a directory let \
             tar write a stream there (a file of this name is ./-)"
        );
    };
    refuse_options(arguments, "standard output (-)")?;
    let impossible =
        [("--verify", arguments.verify), ("--json", arguments.json), ("--receipt", arguments.receipt.is_some())];
    if let Some((option, _)) = impossible.into_iter().find(|(_, is_given)| *is_given) {
        bail!(
            "{option} does not go with - as the destination: standard output has the data, and nothing of it is on this host's disk"
        );
    }
    let output = stdout();
    ensure!(!output.is_terminal(), "standard output is a terminal: lead it to a file or a pipe, or name a file");
    let output = output.as_fd().try_clone_to_owned().context("standard output cannot be written to")?;
    Ok(Some(Output::new(File::from(output))))
}

/// Whether standard input was closed when the program was started. The standard library has put `/dev/null` in its
/// place then, open for reading and writing (`std::rt`, `sanitize_standard_fds`), as no shell opens what it reads.
fn is_closed(stream: &impl AsFd) -> bool {
    let is_both = fcntl_getfl(stream).is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDWR);
    let null = || Some((fstat(stream).ok()?, stat("/dev/null").ok()?));
    is_both && null().is_some_and(|(stream, null)| (stream.st_mode, stream.st_rdev) == (null.st_mode, null.st_rdev))
}

/// Refuses options that are for files with names, times and lengths; `stream` names the stream in
/// errors.
fn refuse_options(arguments: &CopyArguments, stream: &str) -> anyhow::Result<()> {
    let without_meaning = [
        ("--plan", arguments.plan.is_some()),
        ("--files-from", arguments.files_from.is_some() || arguments.files_from0.is_some()),
        ("--follow", arguments.following.follow),
        ("--delete", arguments.delete),
        ("--move", arguments.moves),
        ("--link-dest", !arguments.link_dest.is_empty()),
        ("--delta", arguments.delta),
        ("--in-place", arguments.in_place),
        ("--basis", !arguments.basis.is_empty()),
        ("--snapshot", arguments.snapshot),
        ("--backup-dir", arguments.backup_dir.is_some()),
        ("--skip-equal", arguments.skip_equal),
        ("--update", arguments.update),
        ("--dry-run", arguments.dry_run),
    ];
    match without_meaning.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => {
            bail!("{option} is for files, and {stream} has neither a name, nor a time, nor a length: leave it out")
        }
        None => Ok(()),
    }
}
