//! `icdc plan` as typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use icdc_protocol::message::Preserve;
use icdc_shards::plan::MAX_SHARDS;

use super::{ChoosingArguments, ConnectionArguments};
use crate::values::{Ceiling, ceiling, preserve};

#[derive(Args, Debug)]
#[command(
    override_usage = "icdc plan [OPTIONS] --shards <N> --out <DIR> <SRC>... <DST>\n       \
                      icdc plan status [OPTIONS] <DIR>\n       \
                      icdc plan join [OPTIONS] <DIR>",
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    about = "Divide a copy into shards that several hosts carry out",
    long_about = "Divide a copy into shards of about equal cost. Each shard is copied by `icdc copy --plan DIR`, on any host that has \
        the sources and DIR under the same paths. When all are copied, `icdc plan join DIR` checks that nothing is missing, \
        gives directories their attributes, and prints one digest of the whole: the digest that a single copy has.\n\n\
        SRC are paths on this host. DST is a directory, created if it does not exist: a path, [USER@]HOST:PATH or \
        icdc://HOST[:PORT]/PATH. Each source keeps its own name in it; SRC/ with a trailing slash copies the contents of a \
        directory.\n\n\
        `icdc slurm submit` plans and submits in one step.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  planned; for status and join: everything is copied\n",
        "  1  planned, but something cannot be copied and is named on standard error; for status and join: shards are not\n",
        "     copied, or items failed\n",
        "  2  the command line is invalid, there is no plan, or the plan cannot be used\n",
        "  3  join: could not connect, or access was refused\n",
        "  4  interrupted\n\n",
        "Examples:\n",
        "  icdc plan --shards 8 --out plan /data/run7 dtn.example.org:/srv/\n",
        "  srun --ntasks 8 icdc copy --plan plan      # each task copies its share of the shards\n",
        "  icdc copy --plan plan --shard 3            # one of them, by hand\n",
        "  icdc plan status plan; icdc plan join plan\n",
    )
)]
pub(crate) struct PlanArguments {
    #[command(subcommand)]
    pub(crate) command: Option<PlanCommand>,

    /// What to copy, and, as the last argument, the directory for it
    #[arg(required = true, num_args = 2.., value_names = ["SRC", "DST"], value_hint = ValueHint::AnyPath)]
    pub(crate) places: Vec<OsString>,

    /// Number of shards
    #[arg(long, value_name = "N", required = true, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SHARDS)))]
    pub(crate) shards: Option<u32>,

    /// Directory for the plan; must not exist, or be empty
    #[arg(short, long, value_name = "DIR", required = true, value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) content: PlannedContent,

    /// Print one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Selection of the sources, and options of their copies.
#[derive(Args, Clone, Debug)]
pub(crate) struct PlannedContent {
    /// Limit of the sending rate of all shards together, such as 10gbit: those that are being copied
    /// share it
    #[arg(long, value_name = "RATE|auto", default_value = "auto", value_parser = ceiling)]
    pub(crate) rate: Ceiling,

    #[command(flatten)]
    pub(crate) choosing: ChoosingArguments,

    /// What to preserve besides the data: mode, times, links, owner, xattr, acl, specials, sparse, security;
    /// or all (but security), or none
    #[arg(long, value_name = "LIST", default_value = "mode,times,links,sparse", value_parser = preserve)]
    pub(crate) preserve: Preserve,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    Status(StatusArguments),
    Join(Box<JoinArguments>),
}

#[derive(Args, Debug)]
#[command(
    about = "Show which shards are copied",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  everything is copied\n",
        "  1  shards are not copied, or items failed\n",
        "  2  the command line is invalid, there is no plan, or the plan cannot be used\n\n",
        "Examples:\n",
        "  icdc plan status plan\n",
        "  icdc plan status --json plan\n",
    )
)]
pub(crate) struct StatusArguments {
    /// Directory of the plan
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) plan: PathBuf,

    /// Print one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(
    about = "Check that everything is copied, finish the directories, print the digest of the whole",
    long_about = "Check that every shard is copied, give directories their attributes, and print the digest of the whole.\n\n\
        Items that failed, because their sources changed after they were planned or for any other reason, are planned again as \
        new shards of the same plan. Copy these, then join again.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  everything is copied\n",
        "  1  shards are not copied, or items failed\n",
        "  2  the command line is invalid, there is no plan, or the plan cannot be used\n",
        "  3  could not connect, or access was refused\n",
        "  4  interrupted, or the connection was lost\n\n",
        "Examples:\n",
        "  icdc plan join plan\n",
        "  icdc plan join --ssh 'ssh -i key' plan\n",
    )
)]
pub(crate) struct JoinArguments {
    /// Directory of the plan
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) plan: PathBuf,

    /// Finish without the items that have failed or are gone from the sources, instead of planning
    /// them again
    #[arg(long)]
    pub(crate) accept_missing: bool,

    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,

    /// Print one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
