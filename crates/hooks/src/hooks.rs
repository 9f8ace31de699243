//! The command and the webhook of a run.

use icdc_limits::thread::start_scoped;
use icdc_stop::StopSignal;

use crate::command::{Command, Lines};
use crate::report::Report;
use crate::webhook::Webhook;

/// Actions at the end of a run: a command and a webhook, each if there is one.
pub struct Hooks {
    /// Command to run; `None` for none.
    pub command: Option<Command>,
    /// Web server to which a request is sent; `None` for none.
    pub webhook: Option<Webhook>,
    /// Function that receives the output of the command.
    pub lines: Lines,
}

impl Hooks {
    /// Runs the command and sends the request, at the same time, and waits for both, at most until
    /// `stop` is requested. Returns the error messages of those that failed.
    #[must_use]
    pub fn run(&self, report: &Report, stop: &StopSignal) -> Vec<String> {
        std::thread::scope(|scope| {
            let webhook = self.webhook.as_ref().map(|webhook| {
                // One after the other if no thread can be started.
                start_scoped(scope, "webhook", || webhook.post(report.json(), stop)).map_err(|_| webhook)
            });
            let command = self.command.as_ref().map(|command| command.run(report, &self.lines, stop));
            let command = command.and_then(Result::err).map(|error| format!("--on-finish: {error}"));
            let sent = webhook.map(|started| match started {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(webhook) => webhook.post(report.json(), stop),
            });
            let webhook = sent.and_then(Result::err).map(|error| format!("--webhook: {error}"));
            command.into_iter().chain(webhook).collect()
        })
    }
}
