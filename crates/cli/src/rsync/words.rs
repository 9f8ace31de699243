//! A command line as rsync reads it: options and places in any order, short options in clusters,
//! values behind `=` or as the next word, and only places behind `--`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use super::options::{Meaning, RsyncOption, find};
use crate::habits;

/// An option or a place on rsync's command line.
#[derive(Debug)]
pub(super) enum Word {
    /// An option, as it was spelled.
    Given { name: String, option: &'static RsyncOption },
    /// An option with its value.
    WithValue { name: String, option: &'static RsyncOption, value: OsString },
    /// `--no-OPTION`
    Negated(&'static RsyncOption),
    /// A source, or the destination.
    Place(OsString),
}

/// Parses the words after `icdc rsync` as rsync does.
///
/// # Errors
/// A sentence about the first option that is not taken, or that lacks its value.
pub(super) fn read(words: &[OsString]) -> Result<Vec<Word>, String> {
    let mut read = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let bytes = word.as_bytes();
        if bytes == b"--" {
            read.extend(words.by_ref().map(|place| Word::Place(place.clone())));
        } else if bytes.starts_with(b"--") {
            read.push(long(bytes, &mut words)?);
        } else if bytes.len() > 1 && bytes[0] == b'-' {
            cluster(&bytes[1..], &mut words, &mut read)?;
        } else {
            read.push(Word::Place(word.clone()));
        }
    }
    Ok(read)
}

/// Parses a long option (`--NAME`, `--NAME=VALUE`); its value may be the next word.
fn long<'a>(word: &[u8], next: &mut impl Iterator<Item = &'a OsString>) -> Result<Word, String> {
    let (name, value) = match word.iter().position(|&byte| byte == b'=') {
        Some(equals) => (&word[..equals], Some(OsStr::from_bytes(&word[equals + 1..]).to_owned())),
        None => (word, None),
    };
    let name = String::from_utf8_lossy(name).into_owned();
    let Some(option) = find(&name) else {
        return match negated(&name) {
            Some(option) if value.is_none() => Ok(Word::Negated(option)),
            _ => Err(not_taken(&name)),
        };
    };
    let option = taken(&name, option)?;
    match (option.meaning.has_value(), value) {
        (false, None) => Ok(Word::Given { name, option }),
        (false, Some(_)) => Err(format!("{name}: it takes no value")),
        (true, value) => {
            let value =
                value.or_else(|| next.next().cloned()).ok_or_else(|| format!("{name}: its value is missing"))?;
            Ok(Word::WithValue { name, option, value })
        }
    }
}

/// Parses the short options of a word without its hyphen; the value of one is what follows in the
/// word, or the next word.
fn cluster<'a>(
    letters: &[u8],
    next: &mut impl Iterator<Item = &'a OsString>,
    read: &mut Vec<Word>,
) -> Result<(), String> {
    for (index, &letter) in letters.iter().enumerate() {
        let name = format!("-{}", letter.escape_ascii());
        let option = taken(&name, find(&name).ok_or_else(|| not_taken(&name))?)?;
        if !option.meaning.has_value() {
            read.push(Word::Given { name, option });
            continue;
        }
        let rest = &letters[index + 1..];
        let rest = rest.strip_prefix(b"=").unwrap_or(rest);
        let value = match rest {
            [] => next.next().cloned().ok_or_else(|| format!("{name}: its value is missing"))?,
            rest => OsStr::from_bytes(rest).to_owned(),
        };
        read.push(Word::WithValue { name, option, value });
        break;
    }
    Ok(())
}

/// The option that `--no-OPTION` or `--no-LETTER` turns off; `None` for any other name.
fn negated(name: &str) -> Option<&'static RsyncOption> {
    let rest = name.strip_prefix("--no-")?;
    let positive = if rest.len() == 1 { format!("-{rest}") } else { format!("--{rest}") };
    find(&positive)
}

/// The option, or an error with its reason if it is refused.
fn taken(name: &str, option: &'static RsyncOption) -> Result<&'static RsyncOption, String> {
    match option.meaning {
        Meaning::Refused(reason) => Err(format!("{name}: {reason}")),
        _ => Ok(option),
    }
}

/// Error for an option that is not known, with advice if there is any.
fn not_taken(name: &str) -> String {
    match habits::option(name) {
        Some(advice) => format!("{name}: {advice}"),
        None => format!("{name}: icdc rsync does not take it; icdc sync --help has what there is"),
    }
}
