//! Files that appear and change in a tree, and when each of them has settled.
//!
//! ```text
//! inotify ─► Watcher ─► events ───┐
//!                                 ├─► Settling ─► what is due is examined ─► settled
//! a walk of the tree ─► seen ─────┘
//! ```
//!
//! [`Settling`] does no I/O: it is told what happens to names, and says which of them are due to be
//! examined; whoever carries that out tells what is there. [`Watcher`] holds inotify and the names of the
//! directories that are watched. Below it is `units`; `transfer` walks the tree and drives both.
//!
//! ```
//! use icdc_units::{Span, Time};
//! use icdc_watch::{Delays, Due, Place, Settling, Verdict};
//!
//! let mut settling = Settling::new(Delays { settle: Span::from_secs(2), after_close: Span::from_millis(200) });
//! let shot = Place { tree: 0, path: b"shot7/frame1".to_vec() };
//! let at = |millis| Time::ORIGIN + Span::from_millis(millis);
//! settling.written(at(0), &shot);
//! settling.closed(at(900), &shot);
//! assert_eq!(settling.due(at(1000)), None, "it may be renamed yet");
//! assert_eq!(settling.due(at(1100)), Some((shot.clone(), Due::Quiet)));
//! assert_eq!(settling.examined(at(1100), &shot, Some(4711)), Verdict::Settled { since: at(900) });
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `place` | names in followed trees |
//! | `candidates` | when files that are being written are looked at, as they may travel while they grow (sans-I/O) |
//! | [`settling`] | when a file has settled (sans-I/O) |
//! | `watcher` | inotify over directories that are held by descriptors |
//! | `file_systems` | file systems that report no changes which other hosts make |

#![forbid(unsafe_code)]

mod candidates;
mod file_systems;
mod place;
pub mod settling;
mod watcher;

pub use candidates::Candidates;
pub use file_systems::reports_changes;
pub use place::Place;
pub use settling::{Delays, Due, Settling, Verdict};
pub use watcher::{Event, NotWatched, Watcher, What};
