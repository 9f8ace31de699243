//! Advice on a command line that is not understood: what does here what the words do in other
//! programs ([`habits`]).
//!
//! Without it, clap would suggest what is spelled alike, which may do the opposite (`--resume`:
//! `--no-resume`).

use std::ffi::OsString;
use std::path::Path;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::habits;

/// Puts the right advice in place of the one by spelling. `words` are those of the command line.
pub(crate) fn advise(error: clap::Error, root: &Command, words: &[OsString]) -> clap::Error {
    let mut error = without_hidden(error, root);
    let words: Vec<String> = words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let Some((first, rest)) = words.split_first() else { return error };
    if error.kind() == ErrorKind::InvalidSubcommand {
        if let Some(advice) = habits::command(first) {
            error.remove(ContextKind::SuggestedSubcommand);
            error.remove(ContextKind::Suggested);
            insert(&mut error, vec![format!("{first}: {advice}")]);
        }
        return error;
    }
    let command = root.find_subcommand(first).filter(|_| ["copy", "sync"].contains(&first.as_str()));
    let Some((command, unknown)) = command.zip(unknown(&error)) else { return error };
    if error.kind() == ErrorKind::InvalidValue {
        if let Some(advice) = (unknown == "--progress").then(|| habits::option(&unknown)).flatten() {
            insert(&mut error, vec![format!("{unknown}: {advice}")]);
        }
        return error;
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    // An option is hardly the name of a file, unless there is such a file.
    if unknown.starts_with('-') && Path::new(&unknown).symlink_metadata().is_err() {
        error.remove(ContextKind::Suggested);
    }
    let mut options: Vec<String> = Vec::new();
    for option in rest.iter().take_while(|word| *word != "--").flat_map(|word| unknown_options(word, command)) {
        if !options.contains(&option) {
            options.push(option);
        }
    }
    let advice: Vec<String> =
        options.iter().filter_map(|option| Some(format!("{option}: {}", habits::option(option)?))).collect();
    if !advice.is_empty() {
        error.remove(ContextKind::SuggestedArg);
        insert(&mut error, advice);
    }
    error
}

/// Makes these sentences the error's suggestion, in place of clap's own.
fn insert(error: &mut clap::Error, advice: Vec<String>) {
    let advice = advice.into_iter().map(Into::into).collect();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(advice));
}

/// The option that an error is about, without its value.
fn unknown(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return None };
    Some(unknown.split(['=', ' ']).next().unwrap_or_default().to_owned())
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

/// The options in a word that the command does not have: `-a` and `-z` of `-avz`, `--append` of
/// `--append=x`.
fn unknown_options(word: &str, command: &Command) -> Vec<String> {
    if word.starts_with("--") {
        let name = word.split('=').next().unwrap_or_default();
        let is_ours = command.get_arguments().any(|argument| {
            let names = argument.get_all_aliases().unwrap_or_default();
            names.into_iter().chain(argument.get_long()).any(|own| own == &name[2..])
        });
        return if is_ours { Vec::new() } else { vec![name.to_owned()] };
    }
    let letters = word.strip_prefix('-').unwrap_or_default().chars().take_while(char::is_ascii_alphanumeric);
    let mut unknown = Vec::new();
    for letter in letters {
        let ours = command.get_arguments().find(|argument| {
            let letters = argument.get_all_short_aliases().unwrap_or_default();
            letters.into_iter().chain(argument.get_short()).any(|own| own == letter)
        });
        match ours {
            // What follows is its value.
            Some(argument) if argument.get_action().takes_values() => break,
            Some(_) => {}
            None => unknown.push(format!("-{letter}")),
        }
    }
    unknown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments;

    #[test]
    fn options_that_are_not_ours_are_found_in_words() {
        let root = arguments::command();
        let copy = root.find_subcommand("copy").unwrap();
        let found = |word: &str| unknown_options(word, copy).join(" ");
        assert_eq!(found("-avzP"), "-a -P");
        assert_eq!(found("-azessh"), "-a");
        assert_eq!(found("-nuvq"), "");
        assert_eq!(found("--append=x"), "--append");
        assert_eq!(found("--delete-after"), "");
        assert_eq!(found("--exclude=-z"), "");
        assert_eq!(found("name"), "");
    }
}
