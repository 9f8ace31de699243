//! `icdc lab run` in a build without experiments: whatever is typed, the answer is the same.

use std::ffi::OsString;

use clap::Args;

#[derive(Args, Debug)]
#[command(
    about = "Measure a paper's table or figure anew (not in this build)",
    long_about = "Measure a paper's table or figure anew. This build of icdc has no experiments: the feature `experiments` was left out."
)]
pub(crate) struct RunArguments {
    /// Ignored
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    ignored: Vec<OsString>,
}
