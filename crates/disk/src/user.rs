//! The user as whom this process makes and opens files.

use std::sync::OnceLock;

/// Numeric user by whom the kernel judges file access of this process, and to whom the files belong
/// that it makes.
#[must_use]
pub fn file_user() -> u32 {
    // The user of file access follows it, unless setfsuid(2) is called, which icdc never does. Only
    // the same call could read it, which the filter of a service refuses.
    rustix::process::geteuid().as_raw()
}

/// File mode creation mask (umask) of this process.
#[must_use]
pub fn umask() -> u16 {
    static UMASK: OnceLock<u16> = OnceLock::new();
    *UMASK.get_or_init(|| {
        // Reading it by umask(2) would change it for a moment, for all threads.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        field.and_then(|text| u16::from_str_radix(text.trim(), 8).ok()).unwrap_or(0o022)
    })
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
