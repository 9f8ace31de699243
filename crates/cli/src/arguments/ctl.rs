//! `icdc ctl` as typed.

use clap::{Args, Subcommand};
use icdc_schedule::{RateSchedule, rate_schedule};

use crate::values::{CopyName, copy_name};

#[derive(Args, Debug)]
#[command(
    about = "Show, pause, resume, stop a running copy of this host, or change its rate",
    long_about = "Control a copy (`icdc copy`, `icdc sync`) that runs on this host as the same user. It is named by its \
        --name or its process; neither is needed if only one copy runs. If several run and none is named, they are listed.\n\n\
        A copy listens on a socket in $XDG_RUNTIME_DIR/icdc/ctl, or in ~/.local/state/icdc/ctl without that variable, and takes \
        requests of its own user and of root only.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  done\n",
        "  1  the copy does not answer, or cannot do what is asked for\n",
        "  2  the command line is invalid, no such copy runs, or several run and none is named\n\n",
        "Examples:\n",
        "  icdc ctl status\n",
        "  icdc ctl nightly rate 200mbit\n",
        "  icdc ctl rate 'mon-fri 08:00-18:00=200mbit, else=auto'\n",
        "  icdc ctl pause; sleep 600; icdc ctl resume\n",
        "  icdc ctl 4711 stop\n",
    )
)]
pub(crate) struct CtlArguments {
    /// Name of the copy (--name), or its process
    #[arg(value_name = "NAME|PID", value_parser = chosen_copy)]
    pub(crate) copy: Option<ChosenCopy>,

    /// Print the state of the copy as a JSON object
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: CtlCommand,
}

/// A running copy as it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChosenCopy {
    /// By its process.
    Process(u32),
    /// By the name that it was given.
    Name(CopyName),
}

/// Parses the name of a copy or the number of its process.
fn chosen_copy(text: &str) -> Result<ChosenCopy, String> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(0) => Err("a process has a number from 1".to_owned()),
        Ok(pid) if is_number => Ok(ChosenCopy::Process(pid)),
        _ => copy_name(text).map(ChosenCopy::Name),
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum CtlCommand {
    /// Show how far the copy is, as SIGUSR1 makes it print, and the limit of its rate
    #[command(
        after_long_help = "Examples:\n  icdc ctl status\n  icdc ctl 4711 status --json | jq .progress.bytes_done\n"
    )]
    Status,
    /// Change the limit of the sending rate, from now on
    #[command(after_long_help = "Examples:\n  icdc ctl rate 200mbit\n  icdc ctl 4711 rate auto\n")]
    Rate(CtlRateArguments),
    /// Take up nothing more to send until the copy is resumed; its connections stay, and what is on its way (some MB
    /// for each connection) still arrives
    #[command(after_long_help = "Examples:\n  icdc ctl pause\n")]
    Pause,
    /// Go on after a pause
    #[command(after_long_help = "Examples:\n  icdc ctl resume\n")]
    Resume,
    /// Stop the copy as Ctrl-C does: the same command resumes it
    #[command(after_long_help = "Examples:\n  icdc ctl 4711 stop\n")]
    Stop,
}

#[derive(Args, Debug)]
pub(crate) struct CtlRateArguments {
    /// Limit of the sending rate as --rate of icdc copy takes it: such as 900mbit, auto for none, or rates over time
    #[arg(value_name = "RATE|auto", value_parser = rate_schedule)]
    pub(crate) rate: RateSchedule,
}
