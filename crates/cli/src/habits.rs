//! Options that people know from `rsync`, `scp` and other copiers: what does it here, or that
//! nothing is needed.
//!
//! Without it, clap would suggest what is spelled alike, which may do the opposite (`--resume`:
//! `--no-resume`).

use std::ffi::OsString;
use std::path::Path;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Spellings of one habit, and what to do instead.
type Habit = (&'static [&'static str], &'static str);

const COPY: &[Habit] = &[
    (
        &["-a", "--archive"],
        "not needed: directories are copied whole, with modes, times and links; --preserve all adds owners and extended attributes",
    ),
    (&["-r", "-R", "--recursive"], "not needed: directories are copied with all that is in them"),
    (
        &["-z", "-C", "--compress"],
        "there is no compression: leave it out; pack what compresses well before it is copied",
    ),
    (&["-n"], "write --dry-run"),
    (
        &["-P", "--partial", "--partial-dir"],
        "not needed: what has arrived is kept, and progress is shown on a terminal; for a port of ssh write --ssh 'ssh -p PORT'",
    ),
    (&["-e", "--rsh"], "write --ssh CMD"),
    (
        &["-i", "--itemize-changes"],
        "for a key of ssh write --ssh 'ssh -i FILE', for one of a daemon --identity FILE; -v names every item",
    ),
    (&["-J"], "write --ssh 'ssh -J HOST'"),
    (&["-F"], "write --ssh 'ssh -F FILE'"),
    (&["-o"], "for an option of ssh write --ssh 'ssh -o OPTION'; for owners --preserve all"),
    (
        &["-p", "--perms"],
        "not needed: modes and times are preserved; for a port of ssh write --ssh 'ssh -p PORT', for the data port --port",
    ),
    (
        &["-t", "--times", "-l", "--links", "-S"],
        "not needed: modes, times, links and holes are preserved; see --preserve",
    ),
    (&["-g", "--group", "--owner"], "write --preserve all, or a list with owner"),
    (&["-H", "--hard-links"], "not needed: hard links are preserved"),
    (&["-A", "--acls", "-X", "--xattrs"], "write --preserve all, or a list with xattr"),
    (&["-D", "--devices", "--specials"], "devices, pipes and sockets are not copied; they are named and left out"),
    (&["-L", "--copy-links"], "links are copied as links; name what they point to, or write LINK/ for a directory"),
    (
        &["--delete-after", "--delete-before", "--delete-during", "--delete-delay", "--del", "--mirror"],
        "write --delete: what the sources do not have is deleted at the destination, always after everything else",
    ),
    (&["--remove-source-files", "--move"], "nothing is ever removed at the source: remove it after exit code 0"),
    (
        &["--resume", "--continue", "--restart"],
        "not needed: the same command goes on where it stopped; --no-resume begins anew",
    ),
    (
        &["--append", "--append-verify"],
        "there is none: data is never added to a file that is there, a file that has grown is sent whole; a copy of icdc that was \
         interrupted goes on by the same command",
    ),
    (
        &["--inplace"],
        "there is none: a file that is there is never written into, so that nobody sees half of it; it needs room for the new one \
         beside the old one until it is replaced",
    ),
    (&["-W", "--whole-file"], "not needed: files are always sent whole, there is no comparison by parts"),
    (
        &["--size-only"],
        "there is none: a file that was changed may have the size it had; --skip-equal compares size and modification time",
    ),
    (
        &["--ignore-times", "-I"],
        "not needed: every file is sent, unless --skip-equal or --update skips those of equal size and modification time",
    ),
    (
        &["--modify-window"],
        "not needed: --skip-equal and --update compare times as exactly as the file system of the destination keeps them",
    ),
    (
        &["--ignore-existing", "--existing", "--backup", "-b"],
        "there is none: files that are there are replaced; --skip-equal skips what has equal size and modification time, --update \
         also keeps files that are newer at the destination",
    ),
    (
        &["-c", "--checksum"],
        "there is none: files are not chosen by their contents; without --skip-equal or --update every file is sent, and every byte \
         is checked on arrival; --verify also reads back from the medium",
    ),
    (&["--bwlimit", "--limit-rate", "--max-rate"], "write --rate RATE, such as --rate 900mbit"),
    (&["-j", "--parallel", "--threads", "--transfers"], "rarely needed: write --streams N for several connections"),
    (
        &["--files-from"],
        "there is none: name the sources on the command line, such as icdc copy $(cat LIST) DST for names without blanks",
    ),
    (&["--max-age"], "write --newer-than SPAN, such as --newer-than 7d"),
    (&["--min-age"], "write --older-than SPAN, such as --older-than 7d"),
    (&["--cvs-exclude"], "write the patterns to a file and name it with --exclude-from FILE"),
    (
        &["--prune-empty-dirs", "-m"],
        "there is none: directories are copied also if nothing in them is chosen; leave them out by --exclude DIR/",
    ),
    (
        &["--link-dest", "--compare-dest", "--copy-dest"],
        "there is none: files of an earlier copy are not linked; where the file system can, take a snapshot and copy into it with \
         --skip-equal",
    ),
    (&["-s", "--silent"], "write --quiet"),
    (&["--info", "--stats", "--human-readable"], "not needed: a summary is always told; --json and --report have more"),
];

/// Puts the right advice in place of the one by spelling. `words` are those of the command line.
pub(crate) fn advise(error: clap::Error, root: &Command, words: &[OsString]) -> clap::Error {
    let mut error = without_hidden(error, root);
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return error };
    let mut words = words.iter().skip(1);
    if error.kind() != ErrorKind::UnknownArgument
        || words.next().is_none_or(|command| command != "copy" && command != "sync")
    {
        return error;
    }
    let unknown = unknown.clone();
    // An option is hardly the name of a file, unless there is such a file.
    if unknown.starts_with('-') && Path::new(&unknown).symlink_metadata().is_err() {
        error.remove(ContextKind::Suggested);
    }
    let cluster = words.map(|word| word.to_string_lossy().into_owned()).find(|word| begins_with(word, &unknown));
    let options = match &cluster {
        Some(word) => letters(word),
        None => vec![unknown.split('=').next().unwrap_or_default().to_owned()],
    };
    let advice: Vec<String> = options
        .iter()
        .filter_map(|option| {
            let (_, advice) = COPY.iter().find(|(names, _)| names.contains(&option.as_str()))?;
            Some(format!("{option}: {advice}"))
        })
        .collect();
    if !advice.is_empty() {
        error.remove(ContextKind::SuggestedArg);
        let advice = advice.into_iter().map(Into::into).collect();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(advice));
    }
    error
}

/// The command line with `icdc help [COMMAND]` and `icdc version` in this program's own words:
/// `icdc [COMMAND] --help` and `icdc --version`.
pub(crate) fn translated(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    match words.get(1).and_then(|word| word.to_str()) {
        Some("help") => {
            words.remove(1);
            words.push("--help".into());
        }
        Some("version") => words[1] = "--version".into(),
        _ => {}
    }
    words
}

/// Leaves out of the proposals the commands that are not for users.
fn without_hidden(mut error: clap::Error, root: &Command) -> clap::Error {
    let Some(proposed) = error.get(ContextKind::SuggestedSubcommand) else { return error };
    let is_for_users = |name: &String| root.find_subcommand(name).is_none_or(|command| !command.is_hide_set());
    let left: Vec<String> = match proposed {
        ContextValue::Strings(names) => names.iter().filter(|name| is_for_users(name)).cloned().collect(),
        ContextValue::String(name) => Some(name).filter(|name| is_for_users(name)).cloned().into_iter().collect(),
        _ => return error,
    };
    error.remove(ContextKind::SuggestedSubcommand);
    if !left.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(left));
    }
    error
}

/// Whether `word` is a cluster of short options that holds `option`: `-avz` holds `-a`.
fn begins_with(word: &str, option: &str) -> bool {
    let letter = option.strip_prefix('-').filter(|rest| rest.chars().count() == 1);
    let cluster = word.strip_prefix('-').filter(|rest| !rest.starts_with('-') && rest.chars().count() > 1);
    letter.zip(cluster).is_some_and(|(letter, cluster)| cluster.contains(letter))
}

/// The options in a cluster of short ones: `-a`, `-v` and `-z` of `-avz`.
fn letters(cluster: &str) -> Vec<String> {
    cluster.chars().skip(1).take_while(char::is_ascii_alphabetic).map(|letter| format!("-{letter}")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::arguments;

    #[test]
    fn no_habit_is_listed_twice_or_hides_an_option_of_ours() {
        let command = arguments::command();
        let copy = command.find_subcommand("copy").unwrap();
        let ours: HashSet<String> = copy
            .get_arguments()
            .flat_map(|argument| {
                let short = argument.get_short().map(|letter| format!("-{letter}"));
                short.into_iter().chain(argument.get_long().map(|name| format!("--{name}")))
            })
            .collect();
        let mut seen = HashSet::new();
        for name in COPY.iter().flat_map(|(names, _)| *names) {
            assert!(seen.insert(name), "{name} is listed twice");
            assert!(!ours.contains(*name), "{name} is an option here");
        }
    }
}
