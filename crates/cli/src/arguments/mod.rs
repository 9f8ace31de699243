//! The command line as typed. Every value has the type that it stands for; what a combination means
//! is decided in [`crate::plan`], [`crate::measure`] and [`crate::doctor`]. One file per
//! subcommand. Help, man pages and completions are made from here.

pub(crate) mod cc;
mod choosing;
mod completions;
mod config;
mod connection;
mod copy;
mod ctl;
mod definition;
mod doctor;
mod du;
mod following;
mod generate;
mod groups;
mod keygen;
pub(crate) mod lab;
mod leftovers;
mod ls;
mod measure;
mod mkdir;
mod mv;
pub(crate) mod pace;
mod path;
mod plan;
pub(crate) mod relay;
mod reporting;
mod rm;
mod rsync;
#[cfg_attr(not(feature = "experiments"), path = "run_missing.rs")]
pub(crate) mod run;
mod serve;
pub(crate) mod sim;
mod slurm;
mod sync;
mod verify;
mod version;

use clap::{Parser, Subcommand};

pub(crate) use cc::CcArguments;
pub(crate) use choosing::{ChoosingArguments, RuleArguments};
pub(crate) use completions::{CompletedShell, CompletionsArguments};
pub(crate) use config::ConfigArguments;
pub(crate) use connection::{AddressFamily, ConnectionArguments};
pub(crate) use copy::{CopyArguments, IfRunningMode, ProgressMode};
pub(crate) use ctl::{ChosenCopy, CtlArguments, CtlCommand};
pub(crate) use definition::{command, parse_from};
pub(crate) use doctor::DoctorArguments;
pub(crate) use du::DuArguments;
pub(crate) use following::FollowingArguments;
pub(crate) use generate::{GenerateArguments, Generated};
pub(crate) use keygen::KeygenArguments;
pub(crate) use lab::LabArguments;
pub(crate) use leftovers::LeftoversArguments;
pub(crate) use ls::{ListOrder, LsArguments};
pub(crate) use measure::MeasureArguments;
pub(crate) use mkdir::MkdirArguments;
pub(crate) use mv::MvArguments;
pub(crate) use pace::PaceArguments;
pub(crate) use plan::{JoinArguments, PlanArguments, PlanCommand, PlannedContent, StatusArguments};
pub(crate) use relay::RelayArguments;
pub(crate) use reporting::ReportingArguments;
pub(crate) use rm::RmArguments;
pub(crate) use serve::ServeArguments;
pub(crate) use slurm::{SlurmArguments, SlurmCommand, SubmitArguments};
pub(crate) use sync::SyncArguments;
pub(crate) use verify::{IgnoredAspect, VerifyArguments};
pub(crate) use version::VersionArguments;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "icdc",
    version,
    about = "Copy data from disk to disk across long fat networks, over paced, encrypted and verified TCP",
    long_about = "icdc copies data from disk to disk over long distances. It finds the rate that the path and the disks can \
                  carry, without manual tuning. Data is sent over paced, encrypted TCP connections, as many as the path \
                  needs, and verified on arrival.\n\n\
                  Write sizes as 256MiB or 4MB, and times as 25us, 300ms or 10min. Write rates in bits per second (900mbit, \
                  10gbit) or in bytes per second with a capital B (1.2GB/s, 100MiB/s). RUST_LOG=debug prints a detailed log \
                  on standard error.\n\n\
                  Options can also be set in ~/.config/icdc/config.toml, for all hosts or for some, and by variables ICDC_*: \
                  see icdc config --help.",
    after_long_help = concat!(
        "Examples:\n",
        "  icdc copy data.bin results/ user@far.example.org:/srv/in/     # push by ssh\n",
        "  icdc copy far.example.org:run7/ run7                          # pull by ssh\n",
        "  icdc keygen; icdc copy run7 icdc://dtn.example.org/in/        # push to a daemon\n",
        "  icdc plan --shards 8 --out plan run7 far.example.org:/srv/    # by several hosts\n",
        "  icdc ls -l far.example.org:run7                               # what is there\n",
        "  icdc verify run7 far.example.org:run7                         # whether both are equal\n",
        "  icdc measure far.example.org                                  # what TCP achieves on the path\n",
        "  icdc doctor far.example.org                                   # what slows transfers down\n",
        "  # split TCP for hosts that cannot be tuned:\n",
        "  icdc relay --socks5 :1080 --allow from=10.1.0.0/16 --route default=far.example.org:2634\n",
    ),
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 110
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Copy(Box<CopyArguments>),
    Sync(Box<SyncArguments>),
    Ls(Box<LsArguments>),
    Du(Box<DuArguments>),
    Verify(Box<VerifyArguments>),
    Mkdir(Box<MkdirArguments>),
    Rm(Box<RmArguments>),
    Mv(Box<MvArguments>),
    Plan(Box<PlanArguments>),
    Ctl(CtlArguments),
    Leftovers(LeftoversArguments),
    Slurm(SlurmArguments),
    Serve(Box<ServeArguments>),
    Keygen(KeygenArguments),
    Lab(Box<LabArguments>),
    Measure(Box<MeasureArguments>),
    Doctor(Box<DoctorArguments>),
    Cc(CcArguments),
    Pace(Box<PaceArguments>),
    Relay(RelayArguments),
    Config(ConfigArguments),
    Completions(CompletionsArguments),
    /// What a daemon starts: one session, given to it on standard input
    #[command(hide = true)]
    Session,
    /// What ssh starts: one transfer over standard input and output
    #[command(hide = true)]
    FarEnd {
        /// First message of the starting end, which comes over standard input as well
        told: Option<icdc_protocol::message::Bootstrap>,
    },
    /// Connects to one machine of those that share a name, for ssh, which starts it
    #[command(hide = true)]
    ConnectForSsh {
        /// Address and port of the ssh server
        address: std::net::SocketAddr,
    },
    /// Write man pages or shell completions
    #[command(hide = true)]
    Generate(GenerateArguments),
}

#[cfg(test)]
mod tests {
    use icdc_protocol::message::Preserve;

    use super::*;

    #[test]
    fn preserve_defaults_to_what_the_protocol_defaults_to() {
        let default = Arguments::try_parse_from(["icdc", "copy", "a", "b"]).unwrap();
        let Command::Copy(copy) = default.command else { panic!("copy was asked for") };
        assert_eq!(copy.preserve, Preserve::default());
    }
}
