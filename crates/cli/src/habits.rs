//! Options that people know from `rsync`, `scp` and other copiers: what does it here, or that
//! nothing is needed.
//!
//! Without it, clap would suggest what is spelled alike, which may do the opposite (`--resume`:
//! `--no-resume`).

use std::ffi::OsString;

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
        &["--delete", "--delete-after", "--delete-before", "--delete-during", "--del", "--mirror"],
        "nothing is ever removed at the destination: leave it out, and remove there what you do not want",
    ),
    (&["--remove-source-files", "--move"], "nothing is ever removed at the source: remove it after exit code 0"),
    (
        &["--resume", "--continue", "--append", "--append-verify", "--restart"],
        "not needed: the same command goes on where it stopped; --no-resume begins anew",
    ),
    (&["--inplace", "-W", "--whole-file"], "not needed: a file appears under its name when it is complete"),
    (&["-u", "--size-only", "--ignore-existing"], "write --update to skip what has equal size and modification time"),
    (&["-c", "--checksum"], "not needed: every byte is checked on arrival; --verify also reads back from the medium"),
    (&["--bwlimit", "--limit-rate", "--max-rate"], "write --rate RATE, such as --rate 900mbit"),
    (&["-j", "--parallel", "--threads", "--transfers"], "rarely needed: write --streams N for several connections"),
    (&["--include", "--exclude-from", "--filter", "-f"], "write --exclude GLOB, as often as needed"),
    (&["-q", "--quiet", "-s", "--silent"], "write --progress never"),
    (&["--info", "--stats", "--human-readable"], "not needed: a summary is always told; --json and --report have more"),
];

/// Puts the right advice in place of the one by spelling. `words` are those of the command line.
pub(crate) fn advise(mut error: clap::Error, words: impl Iterator<Item = OsString>) -> clap::Error {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return error };
    let mut words = words.skip(1);
    if error.kind() != ErrorKind::UnknownArgument || words.next().is_none_or(|command| command != "copy") {
        return error;
    }
    let unknown = unknown.clone();
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

/// Whether `word` is a cluster of short options that holds `option`: `-avz` holds `-a`.
fn begins_with(word: &str, option: &str) -> bool {
    let letter = option.strip_prefix('-').filter(|rest| rest.chars().count() == 1);
    let cluster = word.strip_prefix('-').filter(|rest| !rest.starts_with('-') && rest.chars().count() > 1);
    letter.zip(cluster).is_some_and(|(letter, cluster)| cluster.contains(letter))
}

/// The options of a cluster.
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
