//! The command and the webhook of a run.

use icdc_stop::StopSignal;

use crate::command::{Command, Lines};
use crate::report::Report;
use crate::webhook::Webhook;

/// A command and a webhook, each if there is one.
pub struct Hooks {
    /// A command.
    pub command: Option<Command>,
    /// A web server.
    pub webhook: Option<Webhook>,
    /// Receives the output of the command.
    pub lines: Lines,
}

impl Hooks {
    /// Runs the command and sends the request, side by side, until `stop` is requested. Returns the failures.
    #[must_use]
    pub fn run(&self, report: &Report, stop: &StopSignal) -> Vec<String> {
        std::thread::scope(|scope| {
            let webhook = self.webhook.as_ref().map(|webhook| scope.spawn(|| webhook.post(report.json(), stop)));
            let command = self.command.as_ref().map(|command| command.run(report, &self.lines, stop));
            let command = command.and_then(Result::err).map(|error| format!("--on-finish: {error}"));
            let webhook = webhook.and_then(|webhook| match webhook.join() {
                Ok(sent) => sent.err().map(|error| format!("--webhook: {error}")),
                Err(panic) => std::panic::resume_unwind(panic),
            });
            command.into_iter().chain(webhook).collect()
        })
    }
}
