//! The trees that a command line names, and how they are reached.

use std::ffi::OsString;
use std::sync::Arc;

use icdc_client::{CopyOptions, Location, Look, LookError, Looking};
use icdc_disk::tree::printable;
use icdc_stop::StopSignal;
use icdc_transfer::{Event, EventSink};
use serde_json::{Value, json};

use crate::applies::Hosts;
use crate::arguments::ConnectionArguments;
use crate::console::Console;
use crate::plan::connection::connection;
use crate::{exit, logs, signals};

/// Text on standard error when the user asks to stop.
const STOPPING: &str = "stopping (again: stop at once)";

/// Access to trees on this host and others for commands that list or change them: options for
/// reaching them, sink of notices, and the user's request to stop.
pub(crate) struct Observer {
    connection: CopyOptions,
    events: EventSink,
    stop: StopSignal,
}

impl Observer {
    /// Access to the trees at `places`; starts logging and watches for interrupts.
    ///
    /// # Errors
    /// Options that do not fit these places.
    pub(crate) fn new(places: &[Location], arguments: ConnectionArguments, console: &Console) -> anyhow::Result<Self> {
        logs::start(console, logs::Level::OFF);
        let mut hosts = match places.split_last() {
            Some((last, others)) => Hosts::of(others, last),
            None => Hosts::default(),
        };
        // Each tree sends its listing to this host.
        hosts.between_two = false;
        let mut connection = connection(arguments, None, hosts)?;
        let stop = StopSignal::new();
        signals::watch_if_possible(&stop, console, STOPPING);
        connection.confirm_host = Some(console.confirm_host(&stop));
        let events: EventSink = {
            let console = console.clone();
            Arc::new(move |event| {
                if let Event::Notice { text } = event {
                    console.complain(&text);
                }
            })
        };
        Ok(Self { connection, events, stop })
    }

    /// This observer, which asks the user nothing and prints no notices.
    pub(super) fn silent(mut self) -> Self {
        self.connection.confirm_host = None;
        self.events = Arc::new(|_| {});
        self
    }

    /// Signal by which the user asks to stop.
    pub(crate) fn stop(&self) -> &StopSignal {
        &self.stop
    }

    /// Options for reaching a tree with the sink of notices, and the signal by which the user asks
    /// to stop.
    pub(crate) fn reaching(&self) -> ((&CopyOptions, &EventSink), &StopSignal) {
        ((&self.connection, &self.events), &self.stop)
    }

    /// Begins to list a tree.
    pub(super) fn begin_listing(&self, place: &Location, look: &Look) -> Result<Looking, LookError> {
        Looking::begin(place, look, &self.connection, &self.events, &self.stop)
    }
}

/// Parses the texts of a command line that are locations.
///
/// # Errors
/// A text that names none.
pub(crate) fn places(texts: &[OsString]) -> anyhow::Result<Vec<Location>> {
    texts.iter().map(|text| Ok(Location::parse(text)?)).collect()
}

/// Prints the error that ends a command, and returns its exit code.
pub(crate) fn give_up(error: &LookError, console: &Console) -> u8 {
    console.complain(&error.to_string());
    console.flush();
    exit::after(error.kind())
}

/// The exit code of a command that came to its end, failed if not `is_good` or if results could not
/// be written.
pub(crate) fn finish(is_good: bool, console: &Console) -> u8 {
    console.flush();
    if is_good && !console.has_lost_results() { 0 } else { exit::FAILED }
}

/// Path as text for people; `.` for the listed item itself.
pub(super) fn shown(path: &[u8]) -> String {
    if path.is_empty() { ".".to_owned() } else { printable(path) }
}

/// Adds the members `path` and, where that is not exact, `path_hex` to a JSON object.
pub(crate) fn put_path(object: &mut Value, path: &[u8]) {
    let text = shown(path);
    if !path.is_empty() && text.as_bytes() != path {
        object["path_hex"] = json!(icdc_units::hexadecimal(path));
    }
    object["path"] = json!(text);
}
