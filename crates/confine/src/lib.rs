//! Limits that an end of a copy sets to itself before it takes anything from the other end: files
//! that its threads may still open (Landlock), and system calls that its process may still make
//! (seccomp). Neither can be undone. A kernel that lacks one of them does without it.
//!
//! ```
//! use icdc_confine::files::Files;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let directory = tempfile::tempdir()?;
//! std::fs::write(directory.path().join("inside"), "data")?;
//! let files = Files::of_end().read(&std::fs::File::open(directory.path())?);
//! // Only the thread that enforces it is confined, and those that it starts.
//! std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         files.enforce();
//!         assert!(std::fs::read(directory.path().join("inside")).is_ok());
//!         assert!(std::fs::write(directory.path().join("new"), "").is_err() || icdc_confine::files::obstacle().is_some());
//!     });
//! });
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod calls;
pub mod files;
