//! `icdc --version` as typed.

use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct VersionArguments {
    /// Print the version, as icdc version does
    #[arg(short = 'V', long)]
    pub(crate) version: bool,

    /// With --version: also print how the program was built, and what it can use on this host
    #[arg(long, requires = "version")]
    pub(crate) verbose: bool,

    /// With --version: print all of this as one JSON object
    #[arg(long, requires = "version")]
    pub(crate) json: bool,
}
