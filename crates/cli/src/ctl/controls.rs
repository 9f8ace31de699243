//! Controls of a running copy, and its state.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use icdc_client::Location;
use icdc_schedule::{RateSchedule, rate_schedule};
use icdc_transfer::{Event, UserCeiling};
use icdc_units::Rate;

use super::message::{Answer, Request, Status};
use crate::applies::Hosts;
use crate::console::Console;
use crate::copy::output::CopyOutput;
use crate::values::CopyName;

/// Reason why the rate of a copy between two others cannot be changed.
const BETWEEN_TWO: &str = "the data goes between two other hosts, where the rate cannot be changed; stop the copy and start it with another --rate";
/// Reason why the rate of a pull from an older icdc cannot be changed.
const OLDER_SENDER: &str = "the sending end is an older icdc, which takes no changes of the rate; update it there, or stop the copy and start it with another --rate";

/// Controls of a running copy (rate, pause), with the source of its state.
pub(crate) struct Controls {
    name: Option<CopyName>,
    sources: Vec<String>,
    destination: String,
    is_between_two: bool,
    ceiling: Arc<UserCeiling>,
    copy_output: Arc<CopyOutput>,
    console: Console,
    wanted: Mutex<Wanted>,
}

/// The user's requests so far.
struct Wanted {
    rate: RateSchedule,
    is_paused: bool,
    /// The user has been told that changes do not reach the sender.
    is_told: bool,
}

impl Controls {
    /// Controls of a copy that begins with this rate, and has this name.
    pub(crate) fn new(
        name: Option<CopyName>,
        (sources, destination): (&[Location], &Location),
        (ceiling, rate): (&Arc<UserCeiling>, RateSchedule),
        copy_output: &Arc<CopyOutput>,
        console: &Console,
    ) -> Self {
        Self {
            name,
            sources: sources.iter().map(ToString::to_string).collect(),
            destination: destination.to_string(),
            is_between_two: Hosts::of(sources, destination).between_two,
            ceiling: Arc::clone(ceiling),
            copy_output: Arc::clone(copy_output),
            console: console.clone(),
            wanted: Mutex::new(Wanted { rate, is_paused: false, is_told: false }),
        }
    }

    /// Name of the copy; `None` if it has none.
    pub(super) fn name(&self) -> Option<&CopyName> {
        self.name.as_ref()
    }

    /// Progress so far, in a line of text.
    pub(crate) fn text(&self) -> String {
        let paused = if self.wanted().is_paused { "paused  " } else { "" };
        format!("{paused}{}", self.copy_output.status())
    }

    /// Whether the rate depends on the time.
    pub(super) fn depends_on_time(&self) -> bool {
        !self.wanted().rate.is_constant()
    }

    /// Sets the ceiling of the rate to that of the present time, or of the pause.
    pub(super) fn apply(&self) {
        let mut wanted = self.wanted();
        let rate = if wanted.is_paused { Some(Rate::ZERO) } else { wanted.rate.now() };
        self.ceiling.set(rate);
        self.copy_output.set_limit(rate, wanted.rate.lasting());
        if rate != self.ceiling.first() && self.ceiling.is_out_of_reach() && !wanted.is_told {
            wanted.is_told = true;
            self.console.complain(&format!("the rate stays as it was at first: {OLDER_SENDER}"));
        }
    }

    /// Carries out a request, except that a stop is left to the caller, and answers it.
    pub(super) fn carry_out(&self, request: &Request) -> Answer {
        let done = match request {
            Request::Status | Request::Stop => Ok(()),
            Request::Rate { rate } if rate.contains(char::is_control) => {
                Err("the limit of the rate has a control character".to_owned())
            }
            Request::Rate { rate } => rate_schedule(rate).and_then(|rate| {
                self.change(format!("the limit of the rate is {rate} from now on"), |wanted| wanted.rate = rate)
            }),
            Request::Pause => {
                let pid = std::process::id().to_string();
                let named = self.name.as_ref().map_or(pid, |name| shell_words::quote(name.as_str()).into_owned());
                let text = format!("paused; `icdc ctl {named} resume` goes on");
                self.change(text, |wanted| wanted.is_paused = true)
            }
            Request::Resume => self.change("resumed".to_owned(), |wanted| wanted.is_paused = false),
        };
        match done {
            Ok(()) => Answer::Status(Box::new(self.status())),
            Err(reason) => Answer::Refused { reason },
        }
    }

    /// Changes what is wanted, applies it, and tells the user of the copy; an error if that cannot
    /// have an effect.
    fn change(&self, text: String, change: impl FnOnce(&mut Wanted)) -> Result<(), String> {
        if self.is_between_two {
            return Err(BETWEEN_TWO.to_owned());
        }
        if self.ceiling.is_out_of_reach() {
            return Err(OLDER_SENDER.to_owned());
        }
        change(&mut self.wanted());
        self.apply();
        self.copy_output.show(Event::Notice { text });
        Ok(())
    }

    fn status(&self) -> Status {
        let (paused, rate, present) = {
            let wanted = self.wanted();
            (wanted.is_paused, wanted.rate.to_string(), wanted.rate.now())
        };
        Status {
            pid: std::process::id(),
            name: self.name.as_ref().map(|name| name.as_str().to_owned()),
            sources: self.sources.clone(),
            destination: self.destination.clone(),
            paused,
            rate,
            rate_limit_bps: present.map(Rate::as_bits_per_second),
            progress: self.copy_output.progress(),
            text: self.text(),
        }
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
