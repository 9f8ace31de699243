//! The user as whom this process makes and opens files.

/// Numeric user by whom the kernel judges file access of this process, and to whom the files belong
/// that it makes.
#[must_use]
pub fn file_user() -> u32 {
    // The user of file access follows it, unless setfsuid(2) is called, which icdc never does. Only
    // the same call could read it, which the filter of a service refuses.
    rustix::process::geteuid().as_raw()
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
