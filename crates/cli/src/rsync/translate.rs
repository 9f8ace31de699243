//! From a command line of rsync to one of `icdc sync`.
//!
//! What rsync means is kept where it is sound: `sync` makes `DST/dir` of `dir`, skips what is equal
//! in size and modification time, and reads rules as rsync does. Where the two differ, the choice
//! is the one that loses nothing, and a sentence says what differs.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

use icdc_units::ByteCount;

use super::options::{Meaning, RsyncOption, Switch, Valued};
use super::places::{Places, Surroundings};
use super::words::{Word, read};
use super::{quantity, shell};

/// Translation of a command line of rsync.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Translation {
    /// The words behind `icdc`.
    pub(super) words: Vec<OsString>,
    /// Differences from rsync, a sentence each.
    pub(super) differences: Vec<String>,
    /// Whether only errors are to be printed.
    pub(super) is_quiet: bool,
}

/// Translates the words behind `icdc rsync`.
///
/// # Errors
/// A sentence: which option or place cannot be translated, and what does it here.
pub(super) fn translate(words: &[OsString], surroundings: &Surroundings) -> Result<Translation, String> {
    let mut options = ParsedOptions { shell: surroundings.shell.clone(), ..ParsedOptions::default() };
    let mut places = Vec::new();
    for word in read(words)? {
        match word {
            Word::Place(place) => places.push(place),
            Word::Given { name, option } => options.given(&name, option)?,
            Word::WithValue { name, option, value } => options.with_value(&name, option, value)?,
            Word::Negated(option) => options.negated(option),
        }
    }
    let places = Places::new(places, surroundings)?;
    options.check(&places, surroundings)?;
    options.translation(places)
}

/// State of translating a command line: what the options so far mean for icdc.
#[derive(Default)]
struct ParsedOptions {
    switches: BTreeSet<Switch>,
    /// Options of icdc without a value.
    passed: Vec<&'static str>,
    /// Options of icdc with their values, in the order given.
    valued: Vec<(&'static str, OsString)>,
    shell: Option<OsString>,
    /// Limit of the rate in KiB/s; 0 for none.
    bandwidth: u64,
    max_delete: Option<u64>,
    timeout: u64,
    backup_dir: Option<OsString>,
    suffix: Option<OsString>,
    /// Options of icdc with rules for owners, and the options that they were given by.
    owner_rules: Vec<(&'static str, OsString, String)>,
    differences: Vec<String>,
}

impl ParsedOptions {
    /// Takes an option of rsync without a value.
    fn given(&mut self, name: &str, option: &RsyncOption) -> Result<(), String> {
        self.note(name, option);
        match option.meaning {
            Meaning::On(switches) => self.switches.extend(switches),
            Meaning::Pass("--one-file-system") if self.passed.contains(&"--one-file-system") => {
                return Err(format!(
                    "{name}: given twice, rsync leaves mount points out as well: exclude them instead"
                ));
            }
            Meaning::Pass(passed) if !self.passed.contains(&passed) => self.passed.push(passed),
            _ => {}
        }
        Ok(())
    }

    /// Takes an option of rsync with its value; an error if that cannot be translated.
    fn with_value(&mut self, name: &str, option: &RsyncOption, value: OsString) -> Result<(), String> {
        self.note(name, option);
        let shown = value.to_string_lossy().into_owned();
        let number = || shown.parse::<u64>().map_err(|_| format!("{name}={shown}: it is not a number"));
        match option.meaning {
            Meaning::PassValue(passed) => self.valued.push((passed, value)),
            Meaning::Value(Valued::Shell) => self.shell = Some(value),
            Meaning::Value(Valued::Bandwidth) => {
                self.bandwidth = quantity::bandwidth(&shown)
                    .ok_or_else(|| format!("{name}={shown}: it is not a rate of rsync, such as 500 (KiB/s) or 1.5m"))?;
            }
            Meaning::Value(Valued::Size(passed)) => {
                let size = quantity::bytes(&shown, 'b')
                    .ok_or_else(|| format!("{name}={shown}: it is not a size of rsync, such as 500, 100k or 1.5m"))?;
                self.valued.push((passed, format!("{:#}", ByteCount::new(size)).into()));
            }
            // A negative number is no limit there.
            Meaning::Value(Valued::MaxDelete) if shown.starts_with('-') => self.max_delete = None,
            Meaning::Value(Valued::MaxDelete) => self.max_delete = Some(number()?),
            Meaning::Value(Valued::Timeout) => self.timeout = number()?,
            Meaning::Value(Valued::ModifyWindow) if !["0", "-1"].contains(&shown.as_str()) => {
                return Err(format!(
                    "{name}={shown}: times are compared as exactly as the destination's file system keeps them: leave it out"
                ));
            }
            Meaning::Value(Valued::Info) if shown.contains("progress") && !shown.contains("progress0") => {
                self.switches.insert(Switch::Progress);
            }
            Meaning::Value(Valued::Filter) => self.filter(value),
            Meaning::Value(Valued::UserMap) => self.owner_rules(name, "--usermap", value)?,
            Meaning::Value(Valued::GroupMap) => self.owner_rules(name, "--groupmap", value)?,
            Meaning::Value(Valued::Chown) => self.chown(name, &shown)?,
            Meaning::Value(Valued::LinkDest) => self.valued.push(("--link-dest", beside(name, value)?)),
            Meaning::Value(Valued::BackupDir) => self.backup_dir = Some(beside(name, value)?),
            Meaning::Value(Valued::Suffix) => self.suffix = Some(value),
            _ => {}
        }
        Ok(())
    }

    /// Takes rules for owners, which imply that owners are set; `passed` is icdc's option for them,
    /// `name` rsync's.
    fn owner_rules(&mut self, name: &str, passed: &'static str, rules: OsString) -> Result<(), String> {
        if self.owner_rules.iter().any(|(given, ..)| *given == passed) {
            return Err(format!("{name}: {passed} is given already; write all rules in one, between commas"));
        }
        self.switches.insert(if passed == "--usermap" { Switch::Owner } else { Switch::Group });
        self.owner_rules.push((passed, rules, name.to_owned()));
        Ok(())
    }

    /// Takes `--chown USER:GROUP`, as rules by which all owners become that one.
    fn chown(&mut self, name: &str, owner: &str) -> Result<(), String> {
        let (user, group) = owner.split_once(':').unwrap_or((owner, ""));
        for (passed, owner) in [("--usermap", user), ("--groupmap", group)] {
            if !owner.is_empty() {
                self.owner_rules(name, passed, format!("*:{owner}").into())?;
            }
        }
        Ok(())
    }

    /// Appends icdc's options for finding owners at the destination to `words`; an error for rules
    /// where owners are not set.
    fn owners(&self, sets_owner: bool, places: &Places, words: &mut Vec<OsString>) -> Result<(), String> {
        if let Some((.., name)) = self.owner_rules.first().filter(|_| !sets_owner) {
            return Err(format!("{name}: only root can set owners, and here another user receives: leave it out"));
        }
        let is_numeric = places.is_remote && self.has(Switch::NumericIds) && (sets_owner || self.has(Switch::Acls));
        words.extend(is_numeric.then(|| "--numeric-ids".into()));
        self.owner_rules.iter().for_each(|(passed, rules, _)| push(words, passed, rules));
        Ok(())
    }

    /// Turns an option off that was given before or is implied by one.
    fn negated(&mut self, option: &RsyncOption) {
        match option.meaning {
            Meaning::On(switches) => self.switches.retain(|switch| !switches.contains(switch)),
            Meaning::Pass(passed) => self.passed.retain(|other| *other != passed),
            _ => {}
        }
        self.differences.retain(|said| option.names.iter().all(|name| !said.starts_with(&format!("{name}: "))));
    }

    /// Takes a rule of `--filter`; one that names a file of rules becomes icdc's `--filter-from`.
    /// All others are checked by icdc.
    fn filter(&mut self, rule: OsString) {
        let text = rule.to_string_lossy();
        let file = [". ", "merge "].iter().find_map(|prefix| text.strip_prefix(prefix));
        match file {
            Some(file) if rule.to_str().is_some() => self.valued.push(("--filter-from", file.into())),
            _ => self.valued.push(("--filter", rule)),
        }
    }

    /// Notes how the option differs from rsync's, if it does.
    fn note(&mut self, name: &str, option: &RsyncOption) {
        if let Some(difference) = option.difference {
            self.say(format!("{name}: {difference}"));
        }
    }

    /// Adds a sentence on what differs from rsync, unless it was said.
    fn say(&mut self, sentence: String) {
        if !self.differences.contains(&sentence) {
            self.differences.push(sentence);
        }
    }

    /// Whether a switch is on.
    fn has(&self, switch: Switch) -> bool {
        self.switches.contains(&switch)
    }

    /// Refuses combinations that rsync refuses, or that icdc would carry out otherwise than rsync.
    fn check(&self, places: &Places, surroundings: &Surroundings) -> Result<(), String> {
        if !self.has(Switch::Recursive) {
            if self.has(Switch::Delete) {
                return Err("--delete: rsync deletes with -r or -a only: add one".to_owned());
            }
            if let Some(directory) = places.directory(surroundings) {
                let directory = directory.to_string_lossy();
                return Err(format!(
                    "{directory}: rsync skips directories without -r or -a, icdc copies them whole: add -r, which copies a file as well"
                ));
            }
        }
        if self.has(Switch::HardLinks) && !self.has(Switch::Links) {
            return Err(
                "-H: icdc keeps hard links together with symbolic ones: add -l (or -a), or leave -H out".to_owned()
            );
        }
        if places.root_receives && self.has(Switch::Owner) != self.has(Switch::Group) {
            return Err("-o and -g: icdc sets owners and groups together: give both, or none of them".to_owned());
        }
        Ok(())
    }

    /// Whether owners or groups are to be kept.
    fn wants_owner(&self) -> bool {
        self.has(Switch::Owner) || self.has(Switch::Group)
    }

    /// Value of icdc's `--preserve`; `None` if it is the default. Notes what differs from rsync.
    fn preserve(&mut self, places: &Places) -> Option<String> {
        if !self.has(Switch::Perms) {
            self.say(
                "without -p: files keep the modes of the source, which else would be those of new files".to_owned(),
            );
        }
        if !self.has(Switch::Times) {
            self.say(
                "without -t: nothing counts as equal the next time, so that all is sent again: add -t or -a".to_owned(),
            );
        }
        let (wants_owner, sets_owner) = (self.wants_owner(), self.wants_owner() && places.root_receives);
        if wants_owner && !sets_owner {
            self.say(
                "-o, -g: owners and groups are those of the user who receives, as only root can set others".to_owned(),
            );
        }
        let kept = [
            ("mode", true),
            ("times", self.has(Switch::Times)),
            ("links", self.has(Switch::Links)),
            ("owner", sets_owner),
            ("xattr", self.has(Switch::Xattrs)),
            ("acl", self.has(Switch::Acls)),
            ("specials", self.has(Switch::Specials)),
            ("sparse", true),
        ];
        let list: Vec<&str> = kept.iter().filter(|(_, is_kept)| *is_kept).map(|(name, _)| *name).collect();
        Some(list.join(",")).filter(|list| list != "mode,times,links,sparse")
    }

    /// Appends icdc's `--backup-dir` and `--suffix`, by which replaced and deleted items are kept
    /// in another directory or beside under another name; nothing if none are kept. Takes both
    /// values.
    fn backups(&mut self, words: &mut Vec<OsString>) {
        let suffix = self.suffix.take().filter(|suffix| !suffix.is_empty());
        match self.backup_dir.take() {
            Some(directory) => {
                push(words, "--backup-dir", &directory);
                suffix.iter().for_each(|suffix| push(words, "--suffix", suffix));
            }
            None if self.has(Switch::Backup) => push(words, "--suffix", suffix.as_deref().unwrap_or("~".as_ref())),
            None => {}
        }
    }

    /// Makes icdc's command line from all that was read.
    fn translation(mut self, places: Places) -> Result<Translation, String> {
        let mut words: Vec<OsString> = vec!["sync".into()];
        if let Some(list) = self.preserve(&places) {
            push(&mut words, "--preserve", list.as_ref());
        }
        self.owners(self.wants_owner() && places.root_receives, &places, &mut words)?;
        words.extend(self.passed.iter().map(OsString::from));
        self.backups(&mut words);
        if self.has(Switch::Delete) {
            words.push("--delete".into());
            words.extend(self.has(Switch::DeleteExcluded).then(|| "--delete-excluded".into()));
            if let Some(most) = self.max_delete {
                push(&mut words, "--max-delete", most.to_string().as_ref());
                self.say("--max-delete: if more would go, nothing is deleted, not even the first of them".to_owned());
            }
        }
        self.valued.iter().for_each(|(option, value)| push(&mut words, option, value));
        if self.bandwidth > 0 {
            let (value, unit) = match self.bandwidth {
                value if value % 1024 == 0 => (value / 1024, "MiB/s"),
                value => (value, "KiB/s"),
            };
            push(&mut words, "--rate", format!("{value}{unit}").as_ref());
        }
        if self.timeout > 0 && places.is_remote {
            push(&mut words, "--retry-for", format!("{}s", self.timeout).as_ref());
        }
        if let Some(shell) = self.shell.as_ref().filter(|_| places.is_remote) {
            let text = shell.to_str().ok_or("-e: the command has bytes that are not text")?;
            let command = shell::split(text).map_err(|error| format!("-e {error}"))?;
            if command != ["ssh"] && !command.is_empty() {
                push(&mut words, "--ssh", shell_words::join(&command).as_ref());
            }
        }
        let is_quiet = self.has(Switch::Quiet);
        match (is_quiet, self.has(Switch::Verbose), self.has(Switch::Progress)) {
            (true, ..) => words.push("--quiet".into()),
            (_, verbose, progress) => {
                words.extend(verbose.then(|| "--verbose".into()));
                words.extend(progress.then_some(["--progress", "always"]).into_iter().flatten().map(OsString::from));
            }
        }
        let all = || places.sources.iter().chain([&places.destination]);
        words.extend(all().any(|place| place.as_encoded_bytes().starts_with(b"-")).then(|| "--".into()));
        words.extend(all().cloned());
        Ok(Translation { words, differences: self.differences, is_quiet })
    }
}

/// Directory of `--link-dest` or `--backup-dir` as icdc looks for it, beside the destination; rsync
/// looks in it. An error if it lies in the destination.
fn beside(name: &str, directory: OsString) -> Result<OsString, String> {
    if directory.as_encoded_bytes().starts_with(b"/") {
        return Ok(directory);
    }
    let beside = directory.to_str().and_then(|directory| directory.strip_prefix("../")).map(OsString::from);
    beside.ok_or_else(|| {
        let shown = directory.to_string_lossy();
        format!("{name}={shown}: lies in the destination: write ../DIR, or an absolute path")
    })
}

/// Appends an option and its value, as one word if the value would be taken for an option.
fn push(words: &mut Vec<OsString>, option: &str, value: &OsStr) {
    if value.as_encoded_bytes().starts_with(b"-") {
        let mut word = OsString::from(format!("{option}="));
        word.push(value);
        words.push(word);
    } else {
        words.extend([option.into(), value.to_owned()]);
    }
}

#[cfg(test)]
mod tests;
