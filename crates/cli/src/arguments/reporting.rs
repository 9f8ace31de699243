//! Hooks and flow marking as typed: the same for a copy and a daemon.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use icdc_hooks::Target;
use icdc_units::Span;

use crate::values::{collector, limit, webhook};

#[derive(Args, Clone, Debug)]
pub(crate) struct ReportingArguments {
    /// Shell command to run when the copy, or a session of the daemon, has ended, whatever the result.
    /// It gets the result as JSON on standard input, and in ICDC_RESULT and other environment variables
    #[arg(long, value_name = "CMD", help_heading = "Hooks and flow marking", value_hint = ValueHint::CommandString)]
    pub(crate) on_finish: Option<String>,

    /// Time limit of that command; it is killed after this time
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = limit, requires = "on_finish", help_heading = "Hooks and flow marking")]
    pub(crate) on_finish_timeout: Span,

    /// Send the same JSON to this URL (http or https, POST) when the copy or a session has ended; @FILE
    /// reads the URL from a file, because all users of a host can see command lines
    #[arg(long, value_name = "URL|@FILE", value_parser = webhook, help_heading = "Hooks and flow marking", value_hint = ValueHint::Url)]
    pub(crate) webhook: Option<Target>,

    /// File with a secret that signs the request: the header X-Icdc-Signature has the HMAC-SHA-256 of
    /// the body
    #[arg(long, value_name = "FILE", requires = "webhook", help_heading = "Hooks and flow marking", value_hint = ValueHint::FilePath)]
    pub(crate) webhook_secret: Option<PathBuf>,

    /// Time limit of each of up to three attempts
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = limit, requires = "webhook", help_heading = "Hooks and flow marking")]
    pub(crate) webhook_timeout: Span,

    /// Mark data connections with an experiment and an activity (scitags.org), by numbers such as 2.14
    /// or by names of the registry: a UDP datagram (firefly) goes to port 10514 of the other end when a
    /// connection begins, at an interval, and when it ends
    #[arg(long, value_name = "EXPERIMENT.ACTIVITY", help_heading = "Hooks and flow marking")]
    pub(crate) scitags: Option<String>,

    /// File with the registry of names, a copy of www.scitags.org/api.json
    #[arg(long, value_name = "FILE", requires = "scitags", help_heading = "Hooks and flow marking", value_hint = ValueHint::FilePath)]
    pub(crate) scitags_registry: Option<PathBuf>,

    /// Send each firefly to this host as well [default port: 10514]
    #[arg(long, value_name = "HOST:PORT", value_parser = collector, requires = "scitags", help_heading = "Hooks and flow marking")]
    pub(crate) scitags_collector: Option<SocketAddr>,

    /// Time between two fireflies of a connection
    #[arg(long, value_name = "TIME", default_value = "1min", value_parser = limit, requires = "scitags", help_heading = "Hooks and flow marking")]
    pub(crate) scitags_interval: Span,
}
