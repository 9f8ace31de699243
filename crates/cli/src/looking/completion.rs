//! Completions of a path on another host that is typed in part: for shells, which ask at each Tab.
//!
//! Nothing is asked of the user, no host is trusted that was not before, and an end comes within
//! [`LIMIT`]. Names that no shell could show as they are, with control characters or bytes that are no
//! text, are left out.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use icdc_client::{Location, Look};
use icdc_disk::tree::{is_staging, printable};
use icdc_protocol::message::{ListDetail, ListReach, ListedKind};
use icdc_session::listing::checker::{Found, Record};
use icdc_units::Span;

use super::places::Observer;
use crate::arguments::LsArguments;
use crate::console::Console;

/// Time limit for the completions of a path, for which a user waits.
const LIMIT: Span = Span::from_secs(4);
/// Most completions that are printed.
const MOST: usize = 1000;
/// Options by which ssh asks nothing and trusts no new host.
const WITHOUT_QUESTIONS: &str = "-oBatchMode=yes -oConnectTimeout=3 -oStrictHostKeyChecking=yes";

/// Prints for a shell the completions of a path on another host that is typed in part, as whole
/// words, one per line; nothing on any error.
pub(super) fn print(mut arguments: LsArguments, console: &Console) {
    let typed = std::mem::take(&mut arguments.places).into_vec();
    let Ok(place) = Location::parse(OsStr::from_bytes(&typed)) else { return };
    if !place.is_remote() {
        return;
    }
    let start = place.path().iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let begun = place.path()[start..].to_vec();
    let above = &typed[..typed.len() - begun.len()];
    let Ok(directory) = Location::parse(OsStr::from_bytes(above)) else { return };
    arguments.connection.ssh = without_questions(&arguments.connection.ssh);
    let Ok(observer) = Observer::new(std::slice::from_ref(&directory), arguments.connection, console) else { return };
    let observer = observer.silent();
    let stop = observer.stop().clone();
    let limit = move || {
        if !stop.wait(LIMIT) {
            stop.request();
        }
    };
    if icdc_limits::thread::start("limit", limit).is_err() {
        return;
    }
    let look = Look { reach: ListReach::Directory, detail: ListDetail::Names, rules: Vec::new() };
    let Ok(mut looking) = observer.begin_listing(&directory, &look) else { return };
    let mut printed = 0;
    while let Ok(Some(record)) = looking.next_record()
        && printed < MOST
    {
        if let Record::Item(found) = record
            && fits(&found, &begun)
        {
            let slash: &[u8] = if found.kind == ListedKind::Directory { b"/" } else { b"" };
            console.raw(&[above, found.name(), slash, b"\n"].concat());
            printed += 1;
        }
    }
    console.flush();
}

/// Whether an item's name begins as typed, and can be shown as it is.
fn fits(found: &Found, begun: &[u8]) -> bool {
    let name = found.name();
    let is_text = std::str::from_utf8(name).is_ok_and(|text| text == printable(name));
    let is_wanted = begun.starts_with(b".") || !name.starts_with(b".");
    !found.path.is_empty() && name.starts_with(begun) && is_text && is_wanted && !is_staging(name)
}

/// The command that reaches a host, with options by which ssh asks nothing; another one than ssh
/// stays as it is.
fn without_questions(ssh: &str) -> String {
    let program = shell_words::split(ssh).ok().and_then(|words| words.into_iter().next());
    let is_ssh = program.is_some_and(|program| Path::new(&program).file_name() == Some(OsStr::new("ssh")));
    if is_ssh { format!("{ssh} {WITHOUT_QUESTIONS}") } else { ssh.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_asks_nothing() {
        assert_eq!(without_questions("ssh -p 7"), format!("ssh -p 7 {WITHOUT_QUESTIONS}"));
        assert_eq!(without_questions("/usr/bin/ssh"), format!("/usr/bin/ssh {WITHOUT_QUESTIONS}"));
        assert_eq!(without_questions("my-ssh -x"), "my-ssh -x");
        assert_eq!(without_questions("'"), "'");
    }
}
