//! Shows what a change tells, and asks before directories are removed.

use icdc_client::{Location, Over, Reporter};
use icdc_disk::tree::printable;
use icdc_protocol::message::{ChangeCount, ChangedItem};
use icdc_stop::StopSignal;
use serde_json::json;

use super::hosts::prefix;
use crate::console::Console;
use crate::copy::summary::{counted, size};
use crate::looking::places::put_path;

/// Form in which the progress of a change is shown to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Failures.
    Quiet,
    /// A line for each item as well, and how much it is in all.
    Names,
    /// JSON objects.
    Json,
}

impl Form {
    /// Form by the command's options: `json`, and `names` if each item is shown.
    pub(super) fn of(json: bool, names: bool) -> Self {
        match (json, names) {
            (true, _) => Self::Json,
            (false, true) => Self::Names,
            (false, false) => Self::Quiet,
        }
    }
}

/// Way in which the user agrees to a removal.
#[derive(Clone)]
pub(super) enum Consent {
    /// There is no question.
    Given,
    /// Before directories are removed, the user is asked, until this is requested.
    Asked(StopSignal),
}

/// Reporter that shows the user the progress of the change on one host, and asks for consent.
pub(super) struct Teller<'a> {
    /// Text before a path of the host.
    prefix: String,
    /// Change of the items in words: `made`, `removed`, `would be removed`, `renamed to`.
    verb: &'static str,
    form: Form,
    consent: Consent,
    console: &'a Console,
    /// Number of items that could not be changed.
    failed: u64,
    declined: bool,
}

impl<'a> Teller<'a> {
    /// Teller of a change at the host of `place`; `verb` says in words what becomes of an item. It
    /// asks nothing.
    pub(super) fn new(place: &Location, verb: &'static str, form: Form, console: &'a Console) -> Self {
        Self { prefix: prefix(place), verb, form, consent: Consent::Given, console, failed: 0, declined: false }
    }

    /// This teller, with another way to get the user's consent.
    pub(super) fn asking(self, consent: Consent) -> Self {
        Self { consent, ..self }
    }

    /// Whether something could not be changed.
    pub(super) fn has_failed(&self) -> bool {
        self.failed > 0
    }

    /// Whether the user has not agreed to a removal.
    pub(super) fn is_declined(&self) -> bool {
        self.declined
    }

    /// Shows the total of what was changed.
    pub(super) fn end(&self, count: &ChangeCount) {
        match self.form {
            Form::Quiet => {}
            Form::Names => self.console.result(&format!("{} {}", amount(count), self.verb.trim_end_matches(" to"))),
            Form::Json => {
                let ChangeCount { items, directories, bytes } = count;
                let all = json!({
                    "type": "summary", "change": self.verb.trim_end_matches(" to"), "items": items,
                    "directories": directories, "bytes": bytes, "failed": self.failed,
                });
                self.console.json(&all.to_string());
            }
        }
    }
}

impl Reporter for Teller<'_> {
    fn changed(&mut self, item: ChangedItem) -> Result<(), Over> {
        let ChangedItem { path, is_directory } = item;
        match self.form {
            Form::Quiet => {}
            Form::Names => self.console.result(&format!("{} {}{}", self.verb, self.prefix, printable(&path))),
            Form::Json => {
                let kind = if is_directory { "directory" } else { "item" };
                let mut line = json!({ "type": self.verb.replace(' ', "_"), "kind": kind });
                put_path(&mut line, &path);
                self.console.json(&line.to_string());
            }
        }
        Ok(())
    }

    fn failed(&mut self, path: &[u8], reason: String) -> Result<(), Over> {
        self.failed += 1;
        if self.form == Form::Json {
            let mut line = json!({ "type": "failed", "reason": reason });
            put_path(&mut line, path);
            self.console.json(&line.to_string());
        } else {
            self.console.complain(&reason);
        }
        Ok(())
    }

    fn counted(&mut self, count: &ChangeCount) -> Result<(), Over> {
        let Consent::Asked(stop) = &self.consent else { return Ok(()) };
        if count.directories == 0 {
            return Ok(());
        }
        self.console.flush();
        let host =
            if self.prefix.is_empty() { String::new() } else { format!(" at {}", self.prefix.trim_end_matches(':')) };
        let question = format!("remove {}{host}?", amount(count));
        self.declined = self.console.confirm(&question, stop) != Some(true);
        if self.declined { Err(Over) } else { Ok(()) }
    }
}

/// Numbers of changed items, directories and bytes, in words.
fn amount(count: &ChangeCount) -> String {
    let ChangeCount { items, directories, bytes } = *count;
    let directories = match directories {
        0 => String::new(),
        1 => " (1 directory)".to_owned(),
        number => format!(" ({number} directories)"),
    };
    let bytes = if bytes == 0 { String::new() } else { format!(", {}", size(bytes)) };
    format!("{}{directories}{bytes}", counted(items, "item"))
}
