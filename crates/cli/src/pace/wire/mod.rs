//! `icdc pace wire`: what this host sends through a device.
//!
//! | file | what |
//! |---|---|
//! | `show` | the classes as table, JSON, and for Prometheus |

mod show;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result};
use icdc_lab::{Lab, registry};
use icdc_limits::thread::start_scoped;
use icdc_metrics::{Format, text_file};
use icdc_pacer::wire::{Classes, Control, Line, Mode, Status, WireError, WirePacer};
use icdc_stop::StopSignal;
use icdc_units::{Rate, Span};
use signal_hook::consts::SIGHUP;

use crate::arguments::pace::wire::WireArguments;
use crate::clock::Stopwatch;
use crate::console::Console;
use crate::{exit, signals};

/// Longest wait between two checks for signals.
const HEED: Span = Span::from_millis(50);

/// Runs `icdc pace wire` and returns the exit code.
pub(super) fn run(arguments: &WireArguments, console: &Console) -> u8 {
    let result = pace(arguments, console);
    console.flush();
    match result {
        Ok(()) => 0,
        Err(error) => {
            let code = match error.downcast_ref::<WireError>() {
                Some(error) if error.is_usage() => exit::USAGE,
                Some(error) if error.lacks_privilege() => exit::NOT_LET_IN,
                _ => exit::FAILED,
            };
            console.give_up(&error, code)
        }
    }
}

/// Paces a device in classes until a signal stops it, and reports their status.
fn pace(arguments: &WireArguments, console: &Console) -> Result<()> {
    let classes = Classes::read(&arguments.classes)?;
    let line = Line::of(&arguments.dev, arguments.line_rate, charged_by_lab(), arguments.mode.map(Mode::from))?;
    let line = Line { lead: arguments.lead, ..line };
    let tree = classes.tree(line.rate)?;
    for (first, second) in tree.overlaps() {
        console.complain(&format!("classes {first} and {second} overlap: what fits both is of {first}"));
    }
    // Before anything changes: a signal that comes now must not find the default.
    let (stop, reload) = (StopSignal::new(), Arc::new(AtomicBool::new(false)));
    signal_hook::flag::register(SIGHUP, Arc::clone(&reload)).context("SIGHUP cannot be watched")?;
    signals::watch_if_possible(&stop, console, "stopping");
    let mut pacer = WirePacer::open(&line, tree)?;
    console.complain(&show::begins(&line));
    let control = Control::default();
    thread::scope(|scope| {
        let pump = start_scoped(scope, "pump", || {
            let ended = pacer.run(&control);
            stop.request();
            ended
        })?;
        let told = look_after(arguments, &line, &control, &Requests { stop: &stop, reload: &reload }, console);
        control.stop();
        let ended = pump.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let before = told.as_ref().ok().and_then(Option::as_ref);
        tell(arguments, &control.status(), before, console)?;
        ended?;
        told.map(drop)
    })
}

/// Requests to the running pacer, made by signals.
struct Requests<'a> {
    stop: &'a StopSignal,
    /// Whether the classes are to be read anew (SIGHUP).
    reload: &'a AtomicBool,
}

/// Reports the classes' status and reads their file anew until it is time to stop. Returns the last
/// status.
fn look_after(
    arguments: &WireArguments,
    line: &Line,
    control: &Control,
    requests: &Requests<'_>,
    console: &Console,
) -> Result<Option<Status>> {
    let (clock, mut looks, mut before) = (Stopwatch::start(), 1, None);
    let mut complained = None;
    while !requests.stop.wait(HEED.min(arguments.interval)) {
        if requests.reload.swap(false, Ordering::Relaxed) {
            match Classes::read(&arguments.classes).and_then(|classes| classes.tree(line.rate)) {
                Ok(tree) => {
                    control.change(tree);
                    console.complain(&format!("{}: read anew", arguments.classes.display()));
                }
                Err(error) => console.complain(&format!("{error}; the classes stay as they are")),
            }
        }
        if clock.elapsed() >= arguments.interval * looks {
            let now = control.status();
            // What cannot be told does not end the pacing.
            let failed = tell(arguments, &now, before.as_ref(), console).err().map(|error| format!("{error:#}"));
            if let Some(why) = failed.as_ref().filter(|_| failed != complained) {
                console.complain(why);
            }
            complained = failed;
            (before, looks) = (Some(now), looks + 1);
        }
    }
    Ok(before)
}

/// Prints the status of the classes, and writes it for Prometheus if that is asked for.
fn tell(arguments: &WireArguments, now: &Status, before: Option<&Status>, console: &Console) -> Result<()> {
    if let Some(path) = &arguments.prometheus {
        let text = show::reading(&arguments.dev, now).text(Format::Classic);
        text_file::replace(path, &text).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    if arguments.json {
        console.json(&show::object(now, before).to_string());
    } else {
        show::table(console, now, before);
    }
    console.flush();
    Ok(())
}

/// The rate at which the wire of the lab in which this runs charges frames, if both hosts have the
/// same.
fn charged_by_lab() -> Option<Rate> {
    let name = std::env::var(registry::NAME_VARIABLE).ok()?;
    let settings = Lab::find(&name).ok()?.record.settings;
    let charged = |direction: &icdc_path::Settings| direction.line_rate.unwrap_or(direction.rate);
    let rate = charged(&settings.forward);
    (charged(&settings.backward) == rate).then_some(rate)
}
