//! Differences between two trees, as lines and JSON objects.

use icdc_protocol::message::ListedKind;
use icdc_session::listing::checker::Found;
use icdc_session::listing::compare::{Difference, Side, Tally};
use serde_json::{Value, json};

use super::long::kind;
use super::places::{put_path, shown};
use crate::clock::utc_seconds;
use crate::console::Console;
use crate::copy::summary::{counted, size};

/// Width of the column that says how an item differs.
const COLUMN: usize = 12;

/// Where and how the differences between two trees are shown.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) console: &'a Console,
    /// Whether they are shown as JSON, one object a line.
    pub(super) as_json: bool,
}

impl Shown<'_> {
    /// Shows a difference between the trees.
    pub(super) fn difference(&self, difference: &Difference<'_>) {
        match difference {
            Difference::Differs { aspects, a, b } => {
                let names: Vec<&str> = aspects.iter().map(|aspect| aspect.name()).collect();
                if self.as_json {
                    let mut object = json!({ "type": "difference", "differs": names, "a": state(a), "b": state(b) });
                    put_path(&mut object, &a.path);
                    return self.console.json(&object.to_string());
                }
                self.line(&names.join(","), &of_kind(a));
            }
            Difference::OneSided { side, found, beneath } => {
                let word = match side {
                    Side::A => "missing",
                    Side::B => "extra",
                };
                if self.as_json {
                    let mut object = json!({ "type": "difference", "differs": [word], "items": beneath + 1 });
                    put_path(&mut object, &found.path);
                    return self.console.json(&object.to_string());
                }
                let with = if *beneath > 0 { format!(" with {}", counted(*beneath, "item")) } else { String::new() };
                self.line(word, &format!("{}{with}", of_kind(found)));
            }
            Difference::Unreadable { side, path, reason } => self.unreadable(*side, path, reason),
        }
    }

    /// Shows an item that could not be read on one side.
    fn unreadable(&self, side: Side, path: &[u8], reason: &str) {
        if self.as_json {
            let side = match side {
                Side::A => "a",
                Side::B => "b",
            };
            let mut object = json!({ "type": "unreadable", "side": side, "reason": reason });
            put_path(&mut object, path);
            return self.console.json(&object.to_string());
        }
        self.line("unreadable", &shown(path));
        self.console.complain(reason);
    }

    /// Prints a line that says how something differs.
    pub(super) fn line(&self, how: &str, what: &str) {
        self.console.result(&format!("{how:<COLUMN$} {what}"));
    }

    /// Shows the counts at the end of the comparison.
    pub(super) fn tally(&self, tally: &Tally) {
        let Tally { compared, bytes, different, missing, extra, unreadable } = *tally;
        let equal = tally.is_equal();
        if self.as_json {
            let object = json!({
                "type": "summary", "equal": equal, "items": compared, "bytes": bytes, "different": different,
                "missing": missing, "extra": extra, "unreadable": unreadable,
            });
            return self.console.json(&object.to_string());
        }
        let what = if bytes > 0 { format!(", {} of contents", size(bytes)) } else { String::new() };
        if equal {
            return self.console.result(&format!("equal: {}{what}", counted(compared, "item")));
        }
        let counts = [(different, "different"), (missing, "missing"), (extra, "extra"), (unreadable, "unreadable")];
        let counts: Vec<String> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
        self.console.result(&format!("not equal: {}; {} compared{what}", counts.join(", "), counted(compared, "item")));
    }
}

/// Path of an item, with a slash behind that of a directory.
fn of_kind(found: &Found) -> String {
    let slash = if found.kind == ListedKind::Open && !found.path.is_empty() { "/" } else { "" };
    format!("{}{slash}", shown(&found.path))
}

/// Compared state of an item, as JSON.
fn state(found: &Found) -> Value {
    let mut object = json!({ "kind": kind(&found.kind) });
    if let Some(metadata) = &found.metadata {
        object["bytes"] = json!(metadata.size);
        object["mode"] = json!(format!("{:04o}", metadata.mode));
        object["mtime"] = json!(utc_seconds(metadata.modified.seconds));
        object["mtime_ns"] = json!(metadata.modified.nanos);
        object["user"] = json!(metadata.user);
        object["group"] = json!(metadata.group);
    }
    if let ListedKind::Symlink { target } = &found.kind {
        object["target"] = json!(shown(target));
    }
    object
}
