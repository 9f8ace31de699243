//! Limits on the threads and the memory of this process, as `ulimit`, control groups and the kernel
//! set them. A thread that is started here and cannot be had is an error that names the limit, not
//! a panic. Below it is `units`; `transfer`, `client`, `daemon`, `hooks` and `cli` use it.
//!
//! ```
//! let thread = icdc_limits::thread::start("sum", || (1..=4).sum::<u32>()).expect("a thread");
//! assert_eq!(thread.join().expect("no panic"), 10);
//! ```

#![forbid(unsafe_code)]

mod cgroup;
pub mod memory;
pub mod thread;
