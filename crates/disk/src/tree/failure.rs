//! A step of restoring metadata that failed.

use rustix::io::Errno;

use super::error::TreeError;

/// A step that failed: the system call, what it was about if not the file itself, and the error.
pub(super) struct Failure {
    pub(super) call: &'static str,
    pub(super) attribute: Option<String>,
    pub(super) errno: Errno,
}

impl Failure {
    /// Error for the item at `path`.
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

/// The failure of `call` on the item itself.
pub(super) fn at(call: &'static str) -> impl Fn(Errno) -> Failure {
    move |errno| Failure { call, attribute: None, errno }
}
