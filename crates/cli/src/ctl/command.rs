//! `icdc ctl`: which copy is meant, what is asked, what is printed.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use icdc_units::Rate;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::message::{Answer, Request, Status, receive, send};
use super::names::holder;
use super::place::Place;
use crate::arguments::{ChosenCopy, CtlArguments, CtlCommand};
use crate::console::Console;
use crate::copy::outlook::Forecast;
use crate::values::CopyName;
use crate::{exit, logs};

/// Time limit for the answer of a copy: it looks at requests within milliseconds unless it is
/// stopped itself (Ctrl-Z).
const LIMIT: Duration = Duration::from_secs(10);

/// Runs `icdc ctl` and returns the exit code.
pub(crate) fn run(arguments: &CtlArguments, console: &Console) -> u8 {
    logs::start(console, logs::Level::OFF);
    let places = Place::all();
    let found = || places.iter().flat_map(Place::copies).collect();
    let chosen = match &arguments.copy {
        Some(ChosenCopy::Name(name)) => named(&places, name),
        Some(ChosenCopy::Process(pid)) => of_process(found(), *pid),
        None => the_only_one(found()),
    };
    let (pid, stream) = match chosen {
        Ok(chosen) => chosen,
        Err(error) => return console.give_up(&error, exit::USAGE),
    };
    match ask(pid, &stream, &request(&arguments.command)) {
        Ok(Answer::Status(status)) => {
            show(status, arguments, console);
            console.flush();
            if console.has_lost_results() { exit::FAILED } else { 0 }
        }
        Ok(Answer::Refused { reason }) => console.give_up(&anyhow!("process {pid}: {reason}"), exit::FAILED),
        Err(error) => console.give_up(&error, exit::FAILED),
    }
}

/// The copy with this name.
fn named(places: &[Place], name: &CopyName) -> anyhow::Result<(u32, UnixStream)> {
    places.iter().find_map(|place| holder(place, name)).with_context(|| {
        let name = name.as_str();
        format!("no copy of this user and host has the name {name}; `icdc ctl status` shows the one that runs, or lists several")
    })
}

/// The copy that is this process.
fn of_process(mut found: Vec<(u32, UnixStream)>, pid: u32) -> anyhow::Result<(u32, UnixStream)> {
    found.retain(|(known, _)| *known == pid);
    found.pop().with_context(|| {
        format!("no copy of this user and host is process {pid}; `icdc ctl status` shows the one that runs, or lists several")
    })
}

/// The copy that is meant where none is named: the only one.
fn the_only_one(mut found: Vec<(u32, UnixStream)>) -> anyhow::Result<(u32, UnixStream)> {
    match found.len() {
        0 => Err(anyhow!("no copy of this user runs on this host")),
        1 => Ok(found.remove(0)),
        _ => {
            found.sort_by_key(|(pid, _)| *pid);
            // All at once: a copy waits for a request only briefly, and one may be stopped.
            for (_, stream) in &found {
                let _ = send(stream, &Request::Status, LIMIT);
            }
            let lines = found.iter().map(|(pid, stream)| match receive(stream, LIMIT) {
                Ok(Answer::Status(status)) => format!("\n  {}", headline(&status)),
                Ok(Answer::Refused { .. }) | Err(_) => format!("\n  {pid}  does not answer"),
            });
            Err(anyhow!(
                "several copies run; name one, as in icdc ctl NAME status or icdc ctl PID status:{}",
                lines.collect::<String>()
            ))
        }
    }
}

/// The request that a command stands for.
fn request(command: &CtlCommand) -> Request {
    match command {
        CtlCommand::Status => Request::Status,
        CtlCommand::Rate(arguments) => Request::Rate { rate: arguments.rate.to_string() },
        CtlCommand::Pause => Request::Pause,
        CtlCommand::Resume => Request::Resume,
        CtlCommand::Stop => Request::Stop,
    }
}

/// Asks a copy, and waits for its answer.
fn ask(pid: u32, stream: &UnixStream, request: &Request) -> anyhow::Result<Answer> {
    let answered = send(stream, request, LIMIT).and_then(|()| receive(stream, LIMIT));
    answered.with_context(|| {
        format!("process {pid} does not answer; it has just ended, is stopped (`kill -CONT {pid}` wakes it), or is another release")
    })
}

/// Prints the state of a copy after what was asked.
fn show(status: Box<Status>, arguments: &CtlArguments, console: &Console) {
    if arguments.json {
        let line = serde_json::to_string(&Answer::Status(status)).expect("a status is plain data with text as keys");
        return console.json(&line);
    }
    let Status { pid, name, text, rate, .. } = &*status;
    let (copy, word) = match name {
        Some(name) => (format!("{name} (process {pid})"), shell_words::quote(name).into_owned()),
        None => (format!("process {pid}"), pid.to_string()),
    };
    match arguments.command {
        CtlCommand::Status => {
            console.result(&headline(&status));
            console.result(text);
            if let Some(end) = predicted_end(&status.progress.forecast, Timestamp::now(), &TimeZone::system()) {
                console.result(&end);
            }
            let present = match status.rate_limit_bps.map(Rate::from_bits_per_second) {
                Some(present) if rate.contains('=') => format!(", at present {present}"),
                None if rate.contains('=') => ", at present auto".to_owned(),
                _ => String::new(),
            };
            console.result(&format!("limit of the rate: {rate}{present}"));
        }
        CtlCommand::Rate(_) => console.result(&format!("{copy}: the limit of the rate is {rate} from now on")),
        CtlCommand::Pause => console.result(&format!("{copy} is paused; `icdc ctl {word} resume` goes on")),
        CtlCommand::Resume => console.result(&format!("{copy} goes on")),
        CtlCommand::Stop => console.result(&format!("{copy} stops")),
    }
}

/// When a copy is complete by this forecast of the present, in words; `None` if that is not known.
fn predicted_end(forecast: &Forecast, now: Timestamp, zone: &TimeZone) -> Option<String> {
    let Forecast { seconds_left, seconds_left_low, seconds_left_high, .. } = *forecast;
    let (left, low, high) = (seconds_left?, seconds_left_low?, seconds_left_high?);
    let form = if high < 12.0 * 3600.0 { "%H:%M:%S" } else { "%F %H:%M" };
    let at = |seconds: f64| {
        let time = now.checked_add(SignedDuration::try_from_secs_f64(seconds).ok()?).ok()?;
        Some(zone.to_datetime(time).strftime(form).to_string())
    };
    Some(format!("complete at {}, between {} and {}", at(left)?, at(low)?, at(high)?))
}

/// Process and name of a copy, its sources and destination.
fn headline(status: &Status) -> String {
    let name = status.name.as_ref().map_or_else(String::new, |name| format!("{name}  "));
    format!("{}  {name}{}", status.pid, places(status))
}

/// Sources and destination of a copy, as they were typed.
fn places(status: &Status) -> String {
    let sources = if status.sources.is_empty() { "-".to_owned() } else { status.sources.join(" ") };
    format!("{sources} -> {}", status.destination)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_told_by_the_clock_with_the_date_if_it_is_far() {
        let now: Timestamp = "2027-01-04T23:30:00Z".parse().unwrap();
        let end = |left: f64| {
            let (seconds_left_low, seconds_left_high) = (Some(left / 2.0), Some(left * 2.0));
            let forecast =
                Forecast { seconds_left: Some(left), seconds_left_low, seconds_left_high, ..Forecast::default() };
            predicted_end(&forecast, now, &TimeZone::UTC).unwrap()
        };
        assert_eq!(end(60.0), "complete at 23:31:00, between 23:30:30 and 23:32:00");
        let far = "complete at 2027-01-05 23:30, between 2027-01-05 11:30 and 2027-01-06 23:30";
        assert_eq!(end(86_400.0), far);
        assert_eq!(predicted_end(&Forecast::default(), now, &TimeZone::UTC), None);
    }

    fn copy(pid: u32) -> (u32, UnixStream) {
        // Its other end is closed, and nothing answers.
        (pid, UnixStream::pair().unwrap().0)
    }

    #[test]
    fn the_only_copy_need_not_be_named_and_several_are_listed() {
        assert_eq!(the_only_one(vec![copy(7)]).unwrap().0, 7);
        assert_eq!(of_process(vec![copy(7), copy(9)], 9).unwrap().0, 9);
        assert!(the_only_one(vec![]).unwrap_err().to_string().contains("no copy"));
        assert!(of_process(vec![copy(7)], 9).unwrap_err().to_string().contains("process 9"));
        let several = the_only_one(vec![copy(9), copy(7)]).unwrap_err().to_string();
        assert!(several.contains("\n  7  does not answer\n  9  does"), "{several}");
    }
}
