//! `icdc --version` as typed.

use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct VersionArguments {
    /// Print the version
    #[arg(short = 'V', long)]
    pub(crate) version: bool,

    /// With --version: how this program was built, and what this host allows it
    #[arg(long, requires = "version")]
    pub(crate) verbose: bool,

    /// With --version: the same as one JSON object
    #[arg(long, requires = "version")]
    pub(crate) json: bool,
}
