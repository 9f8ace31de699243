//! Room for open files and sockets.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one: a copy holds a descriptor for every
/// directory that it has not finished, a relay several for each connection.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(errno) = setrlimit(Resource::Nofile, raised) {
            tracing::debug!(%errno, "the limit of open files stays as it is");
        }
    }
}
