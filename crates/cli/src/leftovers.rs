//! `icdc leftovers`: what interrupted copies have left at a destination.

use std::borrow::Cow;

use anyhow::{Context, anyhow};
use icdc_client::Location;
use icdc_transfer::unfinished::{Content, Fate, Found, Unfinished, search};
use serde_json::json;

use crate::arguments::LeftoversArguments;
use crate::clock::{age, seconds_since_1970};
use crate::console::Console;
use crate::copy::summary::{counted, size};
use crate::exit;

/// Counts of the unfinished files that `icdc leftovers` has found, by what became of them.
#[derive(Default)]
struct Tally {
    files: u64,
    bytes: u64,
    held: u64,
    recent: u64,
    removed: u64,
    foreign: u64,
    marks: u64,
    errors: u64,
}

/// Runs `icdc leftovers` and returns the exit code.
pub(crate) fn run(arguments: &LeftoversArguments, console: &Console) -> u8 {
    if let Ok(Location::Ssh { .. } | Location::Daemon { .. }) = Location::parse(arguments.path.as_os_str())
        && arguments.path.symlink_metadata().is_err()
    {
        let error = anyhow!("{}: is on another host; run icdc leftovers there", arguments.path.display());
        return console.give_up(&error, exit::USAGE);
    }
    icdc_tcp::raise_descriptor_limit();
    let mut tally = Tally::default();
    let now = i64::try_from(seconds_since_1970()).unwrap_or(i64::MAX);
    let searched = search(&arguments.path, arguments.remove, now, &mut |found| {
        tally.add(&found);
        match found {
            Found::Unfinished(found) => show(&found, now, arguments.json, console),
            Found::Unread(reason) => console.complain(&reason),
            Found::Foreign => {}
        }
    });
    if let Err(error) = searched.with_context(|| format!("{}: cannot be searched", arguments.path.display())) {
        return console.give_up(&error, exit::USAGE);
    }
    tally.show(arguments, console);
    console.flush();
    if tally.errors > 0 || console.has_lost_results() { exit::FAILED } else { 0 }
}

impl Tally {
    /// Counts what the search has found.
    fn add(&mut self, found: &Found) {
        match found {
            Found::Unfinished(found) => {
                self.files += 1;
                self.bytes = self.bytes.saturating_add(found.space.as_u64());
                self.held += u64::from(found.fate == Fate::Held);
                self.recent += u64::from(found.fate == Fate::Recent);
                self.removed += u64::from(found.fate == Fate::Removed);
                self.errors += u64::from(matches!(found.fate, Fate::Stays(_)));
                self.marks += u64::from(matches!(found.content, Content::Mark { .. }) && found.fate == Fate::Left);
            }
            Found::Foreign => self.foreign += 1,
            Found::Unread(_) => self.errors += 1,
        }
    }

    /// Prints the counts.
    fn show(&self, arguments: &LeftoversArguments, console: &Console) {
        let &Self { files, bytes, held, recent, removed, foreign, marks, errors } = self;
        if arguments.json {
            let all = json!({
                "type": "leftovers", "files": files, "bytes": bytes, "in_use": held + recent, "removed": removed,
                "of_others": foreign, "errors": errors,
            });
            return console.json(&all.to_string());
        }
        let mut parts = vec![format!("{}, {}", counted(files, "unfinished file"), size(bytes))];
        if arguments.remove {
            parts.push(format!("{removed} removed"));
        }
        if held > 0 {
            parts.push(format!("{held} in use by a running icdc"));
        }
        if recent > 0 {
            parts.push(format!("{recent} may be in use"));
        }
        if foreign > 0 {
            parts.push(format!("{foreign} of other users left alone"));
        }
        if !arguments.remove && files > held + recent + marks {
            let path = arguments.path.display();
            parts.push(format!("to remove what is not in use: icdc leftovers --remove {path}"));
        }
        console.result(&parts.join("; "));
    }
}

/// Reason for which an unfinished small file without a lock is not removed.
const NO_LOCK: &str = "a running copy of one small file holds no lock, so that it stays for ten minutes";

/// Prints an unfinished file; `now` in seconds since 1970.
fn show(found: &Unfinished, now: i64, json: bool, console: &Console) {
    let seconds = u64::try_from(now.saturating_sub(found.changed)).unwrap_or(0);
    if json {
        let reason = match &found.fate {
            Fate::Stays(reason) => Some(reason.clone()),
            Fate::Recent => Some(format!("it was changed {seconds} s ago; {NO_LOCK}")),
            _ => None,
        };
        let line = json!({
            "type": "leftover", "path": found.path, "holds": holds(&found.content), "bytes": found.space.as_u64(), "age_s": seconds,
            "in_use": matches!(found.fate, Fate::Held | Fate::Recent), "removed": found.fate == Fate::Removed, "reason": reason,
        });
        return console.json(&line.to_string());
    }
    let fate = match &found.fate {
        Fate::Held => ", in use by a running icdc",
        Fate::Recent => &format!("; {NO_LOCK}"),
        Fate::Left => "",
        Fate::Removed => ", removed",
        Fate::Stays(reason) => {
            console.complain(reason);
            ", stays"
        }
    };
    let (space, what) = (size(found.space.as_u64()), holds(&found.content));
    console.result(&format!("{}: {what}, {space}, changed {} ago{fate}", found.path, age(seconds)));
}

/// Contents of an unfinished file or directory, in words.
fn holds(content: &Content) -> Cow<'static, str> {
    Cow::Borrowed(match content {
        Content::Data => "data",
        Content::FileJournal => "journal of a file",
        Content::Mark { file } => return format!("mark of {file}, which is inconsistent").into(),
        Content::RunJournal => "journal of a run",
        Content::Snapshot => "unfinished snapshot",
        Content::Replacement => "unfinished directory of a mirror",
    })
}
