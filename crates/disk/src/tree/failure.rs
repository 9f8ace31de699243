//! A step of restoring metadata that failed.

use rustix::io::Errno;

use super::error::TreeError;

/// A failed step of restoring an item's metadata: the system call, the extended attribute that it
/// concerned (`None` for the item itself), and the error.
pub(super) struct Failure {
    pub(super) call: &'static str,
    pub(super) attribute: Option<String>,
    pub(super) errno: Errno,
}

impl Failure {
    /// Converts the failure to the error for the item at `path`.
    pub(super) fn at(self, path: String) -> TreeError {
        let Self { call, attribute, errno } = self;
        match attribute {
            Some(attribute) if !matches!(errno, Errno::DQUOT | Errno::ROFS) => {
                TreeError::Attribute { path, attribute, call, cause: errno.into() }
            }
            _ => TreeError::new(call, path, errno),
        }
    }
}

/// Function that converts an error number of `call` to a failure that concerns the item itself.
pub(super) fn at(call: &'static str) -> impl Fn(Errno) -> Failure {
    move |errno| Failure { call, attribute: None, errno }
}
