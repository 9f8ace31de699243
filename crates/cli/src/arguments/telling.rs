//! Whom a copy or a daemon tells of itself, as typed: the same for both.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use icdc_hooks::Target;
use icdc_units::Span;

use crate::values::{collector, limit, webhook};

#[derive(Args, Clone, Debug)]
pub(crate) struct TellingArguments {
    /// Shell command to run when a copy, or a session of a daemon, has ended, however: the result is on
    /// its standard input as JSON, and in ICDC_RESULT and other variables
    #[arg(long, value_name = "CMD", help_heading = "Telling others", value_hint = ValueHint::CommandString)]
    pub(crate) on_finish: Option<String>,

    /// Kill that command when it takes longer
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = limit, requires = "on_finish", help_heading = "Telling others")]
    pub(crate) on_finish_timeout: Span,

    /// Send the same JSON to this URL (http or https, POST) when a copy or session has ended; @FILE reads
    /// the URL from a file, since all users of a host see command lines
    #[arg(long, value_name = "URL|@FILE", value_parser = webhook, help_heading = "Telling others", value_hint = ValueHint::Url)]
    pub(crate) webhook: Option<Target>,

    /// Sign it with the secret in this file: X-Icdc-Signature has the HMAC-SHA-256 of the body
    #[arg(long, value_name = "FILE", requires = "webhook", help_heading = "Telling others", value_hint = ValueHint::FilePath)]
    pub(crate) webhook_secret: Option<PathBuf>,

    /// How long one of its three tries may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = limit, requires = "webhook", help_heading = "Telling others")]
    pub(crate) webhook_timeout: Span,

    /// Mark data connections as those of an experiment's activity (scitags.org), by numbers such as
    /// 2.14, or by names of the registry: a firefly goes to the other end, UDP port 10514, when one
    /// begins, each minute, and when it ends
    #[arg(long, value_name = "EXPERIMENT.ACTIVITY", help_heading = "Telling others")]
    pub(crate) scitags: Option<String>,

    /// File with the numbers of names, as www.scitags.org/api.json has them
    #[arg(long, value_name = "FILE", requires = "scitags", help_heading = "Telling others", value_hint = ValueHint::FilePath)]
    pub(crate) scitags_registry: Option<PathBuf>,

    /// Send each firefly to this host, too [default port: 10514]
    #[arg(long, value_name = "HOST:PORT", value_parser = collector, requires = "scitags", help_heading = "Telling others")]
    pub(crate) scitags_collector: Option<SocketAddr>,

    /// How often a connection that goes on is told
    #[arg(long, value_name = "TIME", default_value = "1min", value_parser = limit, requires = "scitags", help_heading = "Telling others")]
    pub(crate) scitags_interval: Span,
}
