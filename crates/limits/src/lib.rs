//! Limits that this process lives under: of threads, of memory and of open files, as `ulimit`, control
//! groups and the kernel set them. Threads are started here by everything that copies, so that one
//! that cannot be had is an error which names the limit, and never a panic.
//!
//! ```
//! let thread = icdc_limits::thread::start("sum", || (1..=4).sum::<u32>()).expect("a thread");
//! assert_eq!(thread.join().expect("no panic"), 10);
//! ```

#![forbid(unsafe_code)]

mod cgroup;
pub mod memory;
pub mod thread;
