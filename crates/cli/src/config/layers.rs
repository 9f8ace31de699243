//! Settings from outside of the command line, from the strongest to the weakest:
//!
//! 1. the variables `ICDC_*`;
//! 2. sections `[host."PATTERN"]` whose pattern matches: of the user's file before those of the
//!    system's, and within a file the most specific pattern first, of two alike the first;
//! 3. what stands at the top of the user's file, or in its `[default]`;
//! 4. the same of the system's file.
//!
//! For the daemon on this host, `[serve]` takes the place of 2 to 4.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use super::document::{Document, Scope, Section};
use super::file::{self, Place};
use super::option::Options;
use super::settings::{Form, Setting};

/// A setting's value from a file or a variable, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// The value's text as it would be written on the command line.
    pub(super) value: OsString,
    pub(super) source: Source,
    /// The lower, the stronger; equal for all that one section sets.
    pub(super) rank: usize,
}

/// Where a setting's value comes from: a variable, or a line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The environment variable of this name.
    Variable(&'static str),
    /// A line of a file; `heading` is its section's, empty for what stands at the file's top.
    File { path: PathBuf, line: usize, heading: String },
}

/// Everything that files and variables set, of which the strongest value can be asked.
#[derive(Debug, Default)]
pub(super) struct Layers {
    /// Whether environment variables are used besides the files.
    pub(super) has_variables: bool,
    /// The user's file, then the system's, as far as they are there.
    documents: Vec<Document>,
    /// Paths of the files, and whether they are there.
    pub(super) looked_at: Vec<(PathBuf, bool)>,
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(formatter, "{name}"),
            Self::File { path, line, heading } => {
                write!(formatter, "{}:{line}", path.display())?;
                if heading.is_empty() { Ok(()) } else { write!(formatter, " {heading}") }
            }
        }
    }
}

impl Layers {
    /// Finds and reads the files of settings.
    ///
    /// # Errors
    /// A file that is there cannot be used.
    pub(super) fn read(options: &Options<'_>) -> anyhow::Result<Self> {
        let Some(places) = file::places() else { return Ok(Self::default()) };
        let mut layers = Self { has_variables: true, ..Self::default() };
        for place in places {
            let bytes = place.read()?;
            layers.looked_at.push((place.path.clone(), bytes.is_some()));
            if let Some(bytes) = bytes {
                let Place { path, .. } = place;
                layers.documents.push(Document::parse(&bytes, &path, options).map_err(anyhow::Error::msg)?);
            }
        }
        Ok(layers)
    }

    /// The value of highest precedence of a setting for these hosts, of which the first counts
    /// before the second; `None` if nothing sets it.
    pub(super) fn strongest(&self, setting: &Setting, hosts: &[&str]) -> Option<Given> {
        let variable = || {
            let value = std::env::var_os(setting.variable).filter(|value| self.has_variables && !value.is_empty())?;
            let value = if setting.form == Form::Flag { flag(value) } else { value };
            Some(Given { value, source: Source::Variable(setting.variable), rank: 0 })
        };
        let in_files = || {
            let sections = self.sections(setting, hosts);
            (1..).zip(sections).find_map(|(rank, (path, section))| {
                let entry = section.entries.iter().find(|entry| entry.setting.key == setting.key)?;
                let (path, heading) = (path.to_owned(), section.scope.heading());
                let source = Source::File { path, line: entry.line, heading };
                Some(Given { value: entry.value.clone().into(), source, rank })
            })
        };
        variable().or_else(in_files)
    }

    /// The sections in which a setting for these hosts may stand, the strongest first.
    fn sections(&self, setting: &Setting, hosts: &[&str]) -> Vec<(&Path, &Section)> {
        if setting.is_of_daemon() {
            return self.of_scope(|scope| matches!(scope, Scope::Serve));
        }
        let of_hosts = hosts.iter().flat_map(|host| self.of_host(host));
        of_hosts.chain(self.of_scope(|scope| matches!(scope, Scope::Default))).collect()
    }

    /// The sections of all files for these scopes, with the paths of their files.
    fn of_scope(&self, is_meant: impl Fn(&Scope) -> bool) -> Vec<(&Path, &Section)> {
        let mut found = Vec::new();
        for document in &self.documents {
            let sections = document.sections.iter().filter(|section| is_meant(&section.scope));
            found.extend(sections.map(|section| (document.path.as_path(), section)));
        }
        found
    }

    /// The sections of all files whose pattern matches a host, the strongest first.
    fn of_host(&self, host: &str) -> Vec<(&Path, &Section)> {
        let mut found = Vec::new();
        for document in &self.documents {
            let matching = document.sections.iter().filter_map(|section| match &section.scope {
                Scope::Host(pattern) if pattern.matches(host) => Some((pattern.rank(), section)),
                _ => None,
            });
            let mut matching: Vec<_> = matching.collect();
            // Stable: of two alike, the first stays first.
            matching.sort_by(|(first, _), (second, _)| first.cmp(second));
            found.extend(matching.into_iter().map(|(_, section)| (document.path.as_path(), section)));
        }
        found
    }
}

/// Value of a variable for a Boolean setting, as a file writes it: `true` or `false`; any other as
/// it is.
fn flag(value: OsString) -> OsString {
    match value.to_str().map(str::to_lowercase).as_deref() {
        Some("1" | "yes" | "on" | "true") => "true".into(),
        Some("0" | "no" | "off" | "false") => "false".into(),
        _ => value,
    }
}
