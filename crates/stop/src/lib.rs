//! The request to stop: made by whoever may (a signal, a user, the end of a connection), heeded by
//! every thread that waits. The end of a child process, for threads that wait for that, and signals
//! of the terminal that a child is not to get.
//!
//! ```
//! use icdc_stop::StopSignal;
//! use icdc_units::Span;
//!
//! let stop = StopSignal::new();
//! let waiting = std::thread::spawn({
//!     let stop = stop.clone();
//!     move || stop.wait(Span::from_secs(3600))
//! });
//! stop.request();
//! assert!(waiting.join().unwrap());
//! ```

mod child;
mod signal;

pub use child::{ChildProcess, ignore_terminal_signals};
pub use signal::{Listening, StopDescriptor, StopSignal};
