//! `icdc du`: counts what is in directories.

use icdc_client::{Location, Look, LookError, Looking};
use icdc_disk::tree::printable;
use icdc_protocol::message::{ListDetail, ListReach, ListedKind};
use icdc_session::listing::checker::Record;

use super::places::{Observer, finish, give_up, places, put_path};
use super::total::Total;
use crate::arguments::DuArguments;
use crate::console::Console;
use crate::exit;

/// Runs `icdc du` and returns the exit code.
pub(crate) fn run(arguments: DuArguments, console: &Console) -> u8 {
    let DuArguments { depth, json, connection, places: texts } = arguments;
    let planned = places(&texts).and_then(|places| {
        let observer = Observer::new(&places, connection, console)?;
        Ok((places, observer))
    });
    let (places, observer) = match planned {
        Ok(planned) => planned,
        Err(error) => return console.give_up(&error, exit::USAGE),
    };
    let look = Look { reach: ListReach::Tree, detail: ListDetail::Metadata, rules: Vec::new() };
    let mut is_complete = true;
    for (place, text) in places.iter().zip(&texts) {
        let view = View { place, text: std::os::unix::ffi::OsStrExt::as_bytes(&**text), depth, json };
        match observer.begin_listing(place, &look).and_then(|mut looking| view.show(&mut looking, console)) {
            Ok(complete) => is_complete &= complete,
            Err(error) => return give_up(&error, console),
        }
        console.flush();
    }
    finish(is_complete, console)
}

/// A place whose contents `icdc du` counts, and how that is shown.
struct View<'a> {
    place: &'a Location,
    /// The place as typed.
    text: &'a [u8],
    /// Levels below the place whose directories are shown.
    depth: usize,
    json: bool,
}

impl View<'_> {
    /// Counts the listed items and shows the totals; returns whether everything was counted.
    fn show(&self, looking: &mut Looking, console: &Console) -> Result<bool, LookError> {
        let mut is_complete = true;
        // Of each open directory.
        let mut totals: Vec<Total> = Vec::new();
        while let Some(record) = looking.next_record()? {
            match record {
                Record::Item(found) => {
                    if let ListedKind::Unexamined(reason) = &found.kind {
                        console.complain(reason);
                        is_complete = false;
                    }
                    let mut total = Total::default();
                    total.add(&found);
                    if found.kind == ListedKind::Open {
                        totals.push(total);
                    } else if let Some(above) = totals.last_mut() {
                        above.join(total);
                    } else {
                        self.total(&total, b"", console);
                    }
                }
                Record::Unread { reason, .. } => {
                    console.complain(&reason);
                    is_complete = false;
                }
                Record::Leave { path } => {
                    let Some(total) = totals.pop() else { continue };
                    if totals.len() <= self.depth {
                        self.total(&total, &path, console);
                    }
                    if let Some(above) = totals.last_mut() {
                        above.join(total);
                    }
                }
            }
        }
        Ok(is_complete)
    }

    /// Shows the total of the directory or file at `path` below the place.
    fn total(&self, total: &Total, path: &[u8], console: &Console) {
        let mut place = self.text.to_vec();
        if !path.is_empty() {
            if !self.place.path().ends_with(b"/") {
                place.push(b'/');
            }
            place.extend_from_slice(path);
        }
        if self.json {
            let mut object = total.object();
            put_path(&mut object, &place);
            console.json(&object.to_string());
        } else {
            console.result(&total.line(&printable(&place)));
        }
    }
}
