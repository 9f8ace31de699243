//! The user as whom this thread makes and opens files.

/// Numeric user by whom the kernel judges file access of this thread, and to whom the files belong
/// that it makes. It need not be the user of the process: a daemon acts as many.
#[must_use]
pub fn file_user() -> u32 {
    // No user has this id, so the call changes nothing; what it gives is the present one.
    const NONE: libc::uid_t = libc::uid_t::MAX;
    // SAFETY: takes and gives plain integers, and with an id that cannot be assumed it only asks.
    let user = unsafe { libc::setfsuid(NONE) };
    user.cast_unsigned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn files_belong_to_that_user() {
        use std::os::unix::fs::MetadataExt as _;
        let file = tempfile::tempfile().unwrap();
        assert_eq!(file.metadata().unwrap().uid(), super::file_user());
    }
}
