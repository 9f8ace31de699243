//! `icdc ls`: lists a directory, or a tree.

use std::cmp::Reverse;

use anyhow::ensure;
use icdc_client::{Location, Look, LookError, Looking};
use icdc_protocol::message::{ListDetail, ListReach, ListedKind, TimeStamp};
use icdc_session::listing::checker::{Found, Record};

use super::completion;
use super::long;
use super::places::{Observer, finish, give_up, places, shown};
use crate::arguments::{ListOrder, LsArguments};
use crate::console::Console;
use crate::exit;

/// Most items that are sorted by something else than their names, which takes memory for all.
const MAX_SORTED: usize = 10_000_000;

/// Form in which `icdc ls` shows an item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Its name.
    Name,
    /// Its name as it is, and a NUL.
    Raw,
    /// A line of all that is known.
    Long,
    /// A JSON object.
    Json,
}

/// Runs `icdc ls` and returns the exit code.
pub(crate) fn run(arguments: LsArguments, console: &Console) -> u8 {
    if arguments.complete {
        completion::print(arguments, console);
        return 0;
    }
    let (observer, view, look) = match plan(arguments, console) {
        Ok(plan) => plan,
        Err(error) => return console.give_up(&error, exit::USAGE),
    };
    match observer.begin_listing(&view.place, &look).and_then(|mut looking| view.show(&mut looking, console)) {
        Ok(is_complete) => finish(is_complete, console),
        Err(error) => give_up(&error, console),
    }
}

/// A place that `icdc ls` lists, with form and order of its items.
struct View {
    place: Location,
    form: Form,
    order: ListOrder,
}

/// Makes the plan from the arguments: access to the tree, how it is shown, and what is listed of
/// it.
fn plan(arguments: LsArguments, console: &Console) -> anyhow::Result<(Observer, View, Look)> {
    let by_metadata = matches!(arguments.sort, ListOrder::Size | ListOrder::Time);
    ensure!(
        !(arguments.recursive && by_metadata),
        "--sort size and --sort time sort one directory: leave -R out, or sort by name"
    );
    let places = places(&[arguments.places])?;
    let observer = Observer::new(&places, arguments.connection, console)?;
    let form = match (arguments.json, arguments.long, arguments.null) {
        (true, ..) => Form::Json,
        (_, true, _) => Form::Long,
        (.., true) => Form::Raw,
        _ => Form::Name,
    };
    let detail = match form {
        Form::Name | Form::Raw if !by_metadata => ListDetail::Names,
        _ => ListDetail::Metadata,
    };
    let reach = if arguments.recursive { ListReach::Tree } else { ListReach::Directory };
    let place = places.into_iter().next().expect("there is one, or the default");
    Ok((observer, View { place, form, order: arguments.sort }, Look { reach, detail, rules: Vec::new() }))
}

impl View {
    /// Shows the listed items in order; returns whether the listing is complete.
    fn show(&self, looking: &mut Looking, console: &Console) -> Result<bool, LookError> {
        let mut is_complete = true;
        let mut sorted = Vec::new();
        while let Some(record) = looking.next_record()? {
            let found = match record {
                Record::Item(found) if found.path.is_empty() && found.kind == ListedKind::Open => continue,
                Record::Item(found) => found,
                Record::Unread { reason, .. } => {
                    console.complain(&reason);
                    is_complete = false;
                    continue;
                }
                Record::Leave { .. } => continue,
            };
            if let ListedKind::Unexamined(reason) = &found.kind {
                console.complain(reason);
                is_complete = false;
            }
            match self.order {
                ListOrder::Name | ListOrder::None => self.item(&found, console),
                ListOrder::Size | ListOrder::Time if sorted.len() < MAX_SORTED => sorted.push(found),
                ListOrder::Size | ListOrder::Time => {
                    let reason = format!("more than {MAX_SORTED} items cannot be sorted; leave --sort out");
                    return Err(LookError::Failed(reason));
                }
            }
            if !console.has_reader() {
                break;
            }
        }
        // Stable: equal ones stay sorted by their names.
        match self.order {
            ListOrder::Size => sorted.sort_by_key(|found| Reverse(size(found))),
            _ => sorted.sort_by_key(|found| Reverse(modified(found))),
        }
        sorted.iter().for_each(|found| self.item(found, console));
        Ok(is_complete)
    }

    /// Shows an item.
    fn item(&self, found: &Found, console: &Console) {
        // A file that is listed itself is called as it was typed.
        let path = if found.path.is_empty() { self.place.path() } else { &found.path };
        match self.form {
            Form::Name => console.result(&shown(path)),
            Form::Raw => console.raw(&[path, b"\0"].concat()),
            Form::Long => console.result(&long::line(found, path)),
            Form::Json => console.json(&long::object(found, path).to_string()),
        }
    }
}

/// Size in bytes by which items are sorted; 0 if it is unknown.
fn size(found: &Found) -> u64 {
    found.metadata.map_or(0, |metadata| metadata.size)
}

/// Time of modification by which items are sorted.
fn modified(found: &Found) -> Option<TimeStamp> {
    found.metadata.map(|metadata| metadata.modified)
}
