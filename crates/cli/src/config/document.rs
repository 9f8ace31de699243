//! A file of settings: TOML whose every key is known and whose every value is one.
//!
//! ```toml
//! rate = "5gbit"            # for all hosts; [default] at its head says the same
//!
//! [host."dtn*.example.org"] # for hosts of that name
//! rate = "900mbit"
//!
//! [serve]                   # for the daemon on this host
//! ```
//!
//! All faults of a file are told at once.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue};

use super::fault::{Fault, line_of};
use super::option::Options;
use super::pattern::Pattern;
use super::settings::{self, Form, Setting};

/// Greatest number of faults that are reported of one file of settings.
const MOST_FAULTS: usize = 20;
/// Least similarity (Jaro-Winkler, 0 to 1) of a name that is proposed in place of an unknown one.
const LIKENESS: f64 = 0.7;

/// Name of the section with settings for all hosts.
const DEFAULT: &str = "default";
/// Name of the sections with settings for some hosts.
const HOST: &str = "host";
/// Name of the section with settings of the daemon.
const SERVE: &str = "serve";

/// The parsed contents of a file of settings.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) path: PathBuf,
    /// Sections in the file's order.
    pub(super) sections: Vec<Section>,
}

/// A section of a file of settings: the settings for some hosts, or for the daemon.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) scope: Scope,
    pub(super) entries: Vec<Entry>,
    /// Byte offset in the file at which the section starts.
    start: usize,
}

/// Hosts or commands for which the settings of a section are.
#[derive(Debug)]
pub(super) enum Scope {
    /// Every host.
    Default,
    /// Hosts whose names match.
    Host(Pattern),
    /// The daemon on this host.
    Serve,
}

/// A setting in a file, with its value.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) setting: &'static Setting,
    /// The value's text as it would be written on the command line.
    pub(super) value: String,
    /// Line of the file, from 1.
    pub(super) line: usize,
}

impl Scope {
    /// The section's heading as written in a file; empty for settings at the file's top.
    pub(super) fn heading(&self) -> String {
        match self {
            Self::Default => String::new(),
            Self::Host(pattern) => format!("[{HOST}.{:?}]", pattern.text),
            Self::Serve => format!("[{SERVE}]"),
        }
    }
}

impl Document {
    /// Parses and checks a file of settings; `options` are those that settings stand for.
    ///
    /// # Errors
    /// Everything that is wrong with the file, each with its place.
    pub(super) fn parse(bytes: &[u8], path: &Path, options: &Options<'_>) -> Result<Self, String> {
        let mut reader = Reader { bytes, path, options, faults: Vec::new(), sections: Vec::new() };
        match std::str::from_utf8(bytes) {
            Ok(text) => match DeTable::parse(text) {
                Ok(table) => reader.file(table.get_ref()),
                Err(error) => {
                    let place = error.span().unwrap_or(0..0);
                    let what = error.message();
                    let again = "; it is defined above: put its lines together there";
                    let remedy = if what.contains("duplicate key") { again } else { "" };
                    reader.fault(place, format!("{what}{remedy}"));
                }
            },
            Err(error) => {
                let start = error.valid_up_to();
                reader.fault(start..start + 1, "not UTF-8 from here on; is this a file of settings?".to_owned());
            }
        }
        reader.end()
    }
}

/// Reads a file's TOML, and collects sections and faults.
struct Reader<'a> {
    bytes: &'a [u8],
    path: &'a Path,
    options: &'a Options<'a>,
    faults: Vec<Fault>,
    sections: Vec<Section>,
}

impl Reader<'_> {
    /// The sections that were read, or the text of all faults.
    fn end(mut self) -> Result<Document, String> {
        if self.faults.is_empty() {
            self.sections.sort_by_key(|section| section.start);
            return Ok(Document { path: self.path.to_owned(), sections: self.sections });
        }
        self.faults.sort_by_key(Fault::line);
        let mut text = String::new();
        for fault in self.faults.iter().take(MOST_FAULTS) {
            let _ = write!(text, "{}{fault}", if text.is_empty() { "" } else { "\n" });
        }
        if let Some(more) = self.faults.len().checked_sub(MOST_FAULTS).filter(|&more| more > 0) {
            let _ = write!(text, "\nand {more} more");
        }
        Err(text)
    }

    /// Notes that `what` is wrong at these bytes of the file.
    fn fault(&mut self, place: Range<usize>, what: String) {
        self.faults.push(Fault::new(self.path, self.bytes, place, what));
    }

    /// Reads the top of the file, and all sections.
    fn file(&mut self, table: &DeTable<'_>) {
        let mut top = Vec::new();
        for (key, value) in table {
            match (key.get_ref().as_ref(), value.get_ref()) {
                (DEFAULT, DeValue::Table(table)) => {
                    let entries = self.entries(table, settings::REACH, "");
                    top.extend(entries);
                }
                (HOST, DeValue::Table(table)) => self.hosts(table),
                (SERVE, DeValue::Table(table)) => {
                    let entries = self.entries(table, settings::SERVE, "in [serve]");
                    self.section(Scope::Serve, entries, key.span().start);
                }
                (DEFAULT | HOST | SERVE, _) => {
                    let name = key.get_ref();
                    let heading = if *name == HOST { "[host.\"PATTERN\"]".to_owned() } else { format!("[{name}]") };
                    self.fault(value.span(), format!("{name} is a section: write {heading} on a line of its own"));
                }
                _ => top.extend(self.entry(key, value, settings::REACH, "")),
            }
        }
        top.sort_by_key(|entry| entry.line);
        let twice = top.iter().enumerate().find_map(|(index, entry)| {
            let first = top[..index].iter().find(|first| first.setting.key == entry.setting.key)?;
            Some((
                entry.line,
                format!("{} is set twice for all hosts, first in line {}", entry.setting.key, first.line),
            ))
        });
        if let Some((line, what)) = twice {
            let start = self.bytes.split_inclusive(|&byte| byte == b'\n').take(line - 1).map(<[u8]>::len).sum();
            self.fault(start..start + 1, what);
        }
        self.section(Scope::Default, top, 0);
    }

    /// Reads the sections `[host."PATTERN"]`.
    fn hosts(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            match value.get_ref() {
                DeValue::Table(table) => match Pattern::new(name) {
                    Ok(pattern) => {
                        let entries = self.entries(table, settings::REACH, "for hosts");
                        self.section(Scope::Host(pattern), entries, key.span().start);
                    }
                    Err(what) => self.fault(key.span(), what),
                },
                _ => self.fault(
                    key.span(),
                    format!("[host] needs the name of a host: write [host.\"dtn*\"], and {name} below it"),
                ),
            }
        }
    }

    /// Appends a section whose heading stands at the byte offset `start`.
    fn section(&mut self, scope: Scope, entries: Vec<Entry>, start: usize) {
        self.sections.push(Section { scope, entries, start });
    }

    /// Reads the settings of a section, which may have those that are `known`; `place` names the
    /// section in faults.
    fn entries(&mut self, table: &DeTable<'_>, known: &'static [Setting], place: &str) -> Vec<Entry> {
        table.iter().filter_map(|(key, value)| self.entry(key, value, known, place)).collect()
    }

    /// Reads one setting; `None` if it is wrong, which is then noted as a fault.
    fn entry(
        &mut self,
        key: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
        known: &'static [Setting],
        place: &str,
    ) -> Option<Entry> {
        let name = key.get_ref().as_ref();
        let Some(setting) = known.iter().find(|setting| setting.key == name) else {
            let what = self.unknown(name, value.get_ref(), known, place);
            self.fault(key.span(), what);
            return None;
        };
        let text = text_of(setting, value.get_ref()).and_then(|text| {
            self.options.check(setting, &text).map_err(|what| format!("{name}: {what}"))?;
            Ok(text)
        });
        match text {
            Ok(value) => Some(Entry { setting, value, line: line_of(self.bytes, key.span().start) }),
            Err(what) => {
                self.fault(value.span(), what);
                None
            }
        }
    }

    /// Message for a key that is not a setting.
    fn unknown(&self, name: &str, value: &DeValue<'_>, known: &[Setting], place: &str) -> String {
        let place = if place.is_empty() { String::new() } else { format!(" {place}") };
        if value.is_table() && place == " for hosts" {
            return format!(
                "unknown key {name} for hosts; a name with dots must be in quotes: [host.\"dtn.example.org\"]"
            );
        }
        let sections = [DEFAULT, HOST, SERVE].iter().filter(|_| place.is_empty()).copied();
        let written = name.to_lowercase().replace('_', "-");
        if let [first, ..] = self.options.commands_with(&written).as_slice()
            && !settings::all().any(|setting| setting.key == written)
        {
            return format!("{name} is no setting: give --{written} to icdc {first} on the command line each time");
        }
        let names = known.iter().map(|setting| setting.key).chain(sections);
        let nearest = names
            .map(|candidate| (strsim::jaro_winkler(&written, candidate), candidate))
            .filter(|(likeness, _)| *likeness >= LIKENESS)
            .max_by(|(first, _), (second, _)| first.total_cmp(second));
        match nearest {
            Some((_, nearest)) => format!("unknown key {name}{place}; did you mean {nearest}?"),
            None if value.is_table() => {
                format!("unknown section {name}{place}; there are [default], [host.\"PATTERN\"] and [serve]")
            }
            None => {
                let all: Vec<&str> = known.iter().map(|setting| setting.key).collect();
                format!("unknown key {name}{place}; there are {}", all.join(", "))
            }
        }
    }
}

/// Converts a value of the file to its text on the command line.
fn text_of(setting: &Setting, value: &DeValue<'_>) -> Result<String, String> {
    let text = match (setting.form, value) {
        (Form::Flag, DeValue::Boolean(value)) => Some(value.to_string()),
        (Form::Number, DeValue::Integer(value)) => {
            i64::from_str_radix(value.as_str(), value.radix()).ok().map(|number| number.to_string())
        }
        (Form::List, DeValue::Array(array)) => list(array),
        (Form::PathOr(word), DeValue::String(text)) if text == word => Some(word.to_owned()),
        (Form::Path | Form::PathOr(_), DeValue::String(text)) => return path(setting, text),
        (Form::Text | Form::Number | Form::List, DeValue::String(text)) => Some(text.to_string()),
        _ => None,
    };
    let text = text.ok_or_else(|| {
        let article = if value.type_str().starts_with(['a', 'i']) { "an" } else { "a" };
        format!(
            "{} takes {}, such as {}; this is {article} {}",
            setting.key,
            setting.expected(),
            setting.example,
            value.type_str()
        )
    })?;
    match text.contains(char::is_control) {
        true => Err(format!("{} has a control character", setting.key)),
        false => Ok(text),
    }
}

/// The texts of a list, with commas between; `None` if an item is no text, or has a comma.
fn list(array: &DeArray<'_>) -> Option<String> {
    let texts = array.iter().map(|item| item.get_ref().as_str().filter(|text| !text.contains(',')));
    Some(texts.collect::<Option<Vec<_>>>()?.join(","))
}

/// An absolute path as text, with the home directory in place of `~`; an error for a relative one.
fn path(setting: &Setting, text: &str) -> Result<String, String> {
    if text.contains(char::is_control) {
        return Err(format!("{} has a control character", setting.key));
    }
    if text.starts_with('/') {
        return Ok(text.to_owned());
    }
    let Some(rest) = text.strip_prefix("~/") else {
        let word = if let Form::PathOr(word) = setting.form { format!("{word}, ") } else { String::new() };
        return Err(format!("{} takes {word}an absolute path, or one that begins with ~/", setting.key));
    };
    match std::env::var("HOME") {
        Ok(home) if home.starts_with('/') => Ok(format!("{}/{rest}", home.trim_end_matches('/'))),
        _ => Err("~/ stands for HOME, which is not set to an absolute path".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Document, String> {
        Document::parse(text.as_bytes(), Path::new("/f"), &Options(&clap::Command::new("icdc")))
    }

    #[test]
    fn sections_keep_their_order_and_values_their_lines() {
        let text = "rate = '1gbit'\n[host.\"b\"]\nstreams = 0x10\n[host.a]\npreserve = ['mode', 'times']\nverify = true\n\
                    [default]\ncc = 'bbr'\n[serve]\nroot = '/srv'\n";
        let document = parse(text).unwrap();
        let shown: Vec<String> = document
            .sections
            .iter()
            .flat_map(|section| {
                let entry = |entry: &Entry| {
                    format!("{} {}={} {}", section.scope.heading(), entry.setting.key, entry.value, entry.line)
                };
                section.entries.iter().map(entry).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(
            shown,
            [
                " rate=1gbit 1",
                " cc=bbr 8",
                "[host.\"b\"] streams=16 3",
                "[host.\"a\"] preserve=mode,times 5",
                "[host.\"a\"] verify=true 6",
                "[serve] root=/srv 10",
            ]
        );
    }

    #[test]
    fn any_text_is_read_or_refused_with_a_place() {
        let pieces =
            ["rate", "=", "'1gbit'", "[host.\"a\"]", "\n", "[", "]", "{", "\"", "\0", "ä", ".", "host", "#", "7"];
        // A linear congruential generator: every run tries the same texts.
        let mut state = 1_u32;
        for _ in 0..5000 {
            let mut text = String::new();
            for _ in 0..12 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text += pieces[(state >> 16) as usize % pieces.len()];
            }
            if let Err(faults) = parse(&text) {
                assert!(faults.starts_with("/f:") && faults.contains('^'), "{text:?}: {faults}");
            }
        }
    }
}
