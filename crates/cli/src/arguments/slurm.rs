//! `icdc slurm` as typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use icdc_shards::plan::MAX_SHARDS;

use super::choosing::CHOOSING;
use super::plan::PlannedContent;

#[derive(Args, Debug)]
#[command(
    about = "Copy by several nodes of a Slurm cluster",
    long_about = "Copy by several nodes of a Slurm cluster: `icdc slurm submit` plans a copy in shards (icdc plan) and submits a job \
        array that copies them and a job that joins them.",
    after_long_help = concat!(
        "Exit codes: those of icdc slurm submit.\n\n",
        "Examples:\n",
        "  icdc slurm submit --nodes 4 --out plan /data/run7 dtn.example.org:/srv/\n",
    )
)]
pub(crate) struct SlurmArguments {
    #[command(subcommand)]
    pub(crate) command: SlurmCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SlurmCommand {
    Submit(Box<SubmitArguments>),
}

#[derive(Args, Debug)]
#[command(
    override_usage = "icdc slurm submit [OPTIONS] --nodes <N> --out <DIR> <SRC>... <DST>\n       \
                      icdc slurm submit [OPTIONS] --nodes <N> --plan <DIR>",
    about = "Plan a copy, submit a job array that copies the shards, and a job that joins them",
    long_about = "Plan a copy, submit a job array that copies the shards, and a job that joins them.\n\n\
        Every node needs the sources, the plan and this program under the same paths: a shared file system. A task that is \
        requeued, because its node failed or because it was preempted, continues where it was. So does one that reaches its time \
        limit: a minute before, it stops cleanly and requeues itself.\n\n\
        With --plan, submit the shards of an existing plan that are not copied yet.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  submitted\n",
        "  1  submitted, but something cannot be copied and is named on standard error; or sbatch failed\n",
        "  2  the command line is invalid, or nothing was planned\n",
        "  4  interrupted; nothing was planned\n\n",
        "Examples:\n",
        "  icdc slurm submit --nodes 4 --out plan /data/run7 dtn.example.org:/srv/\n",
        "  icdc slurm submit --nodes 4 --shards 64 --sbatch '--partition dtn --time 2:00:00' --out plan /data/run7 /archive\n",
        "  icdc plan status plan; cat plan/slurm/join.log\n",
    )
)]
pub(crate) struct SubmitArguments {
    /// What to copy, and, as the last argument, the directory for it
    #[arg(required_unless_present = "plan", num_args = 2.., value_names = ["SRC", "DST"], value_hint = ValueHint::AnyPath)]
    pub(crate) places: Vec<OsString>,

    /// Number of shards that are copied at the same time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SHARDS)))]
    pub(crate) nodes: u32,

    /// Number of shards [default: as many as --nodes]
    #[arg(long, value_name = "N", conflicts_with = "plan", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SHARDS)))]
    pub(crate) shards: Option<u32>,

    /// Directory for the plan; must not exist, or be empty
    #[arg(short, long, value_name = "DIR", required_unless_present = "plan", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,

    /// Submit what is not copied yet of this plan
    #[arg(long, value_name = "DIR", conflicts_with_all = ["places", "out", "preserve", "rate"], conflicts_with_all = CHOOSING, value_hint = ValueHint::DirPath)]
    pub(crate) plan: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) content: PlannedContent,

    /// Options of icdc copy on reaching the remote host (see there under Reaching hosts), for copying
    /// and for joining: --connection '--port 5000-5010'
    #[arg(long, value_name = "OPTIONS", default_value = "", allow_hyphen_values = true)]
    pub(crate) connection: String,

    /// Other options of icdc copy: --copy '--cc cubic --verify'
    #[arg(long, value_name = "OPTIONS", default_value = "", allow_hyphen_values = true)]
    pub(crate) copy: String,

    /// Options of sbatch, for both jobs: --sbatch '--partition dtn --time 2:00:00'
    #[arg(long, value_name = "OPTIONS", default_value = "", allow_hyphen_values = true)]
    pub(crate) sbatch: String,

    /// Write the plan and the scripts, and print the commands that would submit them
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
