//! Paths of installed programs.

use std::env;
use std::path::PathBuf;

/// Path of a program in `PATH` or in the `sbin` directories; `None` if it is not there.
pub(crate) fn installed(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let further = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path).chain(further).map(|place| place.join(program)).find(|place| place.is_file())
}
