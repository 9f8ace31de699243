//! Where installed programs are.

use std::env;
use std::path::PathBuf;

/// A program in `PATH` or where administrators' programs are.
pub(crate) fn installed(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let further = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path).chain(further).map(|place| place.join(program)).find(|place| place.is_file())
}
