//! `icdc lab run` in a build without experiments: whatever is typed, the answer is the same.

use std::ffi::OsString;

use clap::Args;

#[derive(Args, Debug)]
#[command(
    about = "Run a scenario (not in this build)",
    long_about = "Run a scenario. This build of icdc has no scenarios: it was built without the feature `experiments`."
)]
pub(crate) struct RunArguments {
    /// Ignored
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    ignored: Vec<OsString>,
}
