//! Pacing by counting bytes on the wire (PSPacer: Takano et al., 2006), for classes of traffic in a
//! tree.
//!
//! ```text
//! frame ─► filters ─► leaf queue ─┐            position   bytes that have passed on the line, gaps included
//!                     …           ├─► next ─►  due(class) position from which its next frame may leave
//!                     leaf queue ─┘
//!
//! a frame of L bytes on the wire leaves at due = d:   due ← d + L · line / rate      whole bytes and an exact rest
//! a class that had nothing to send:                   due ← max(due, position)       nothing is saved up
//! ```
//!
//! Whoever drives it moves `position`: by what it sends, by gap frames that fill the line, or by
//! the clock. The next frame is, in this order: of the classes with a rate that are due the one
//! whose next full frame would be due soonest after this one; of those that may take more than
//! their rate, or that have none, the one that has had least, as far as the ceilings above it
//! allow; else a gap up to the next position at which something is due.
//!
//! | part | file |
//! |---|---|
//! | a class's clock | `clock` |
//! | what classes are like, and which trees cannot be | [`ClassSettings`], [`Tree`] |
//! | which class a frame belongs to | [`Filter`], on [`Headers`] |
//! | a class's frames that wait: byte limit, drop-tail, marking, CoDel | `queue` |
//! | the classes of flows that came lately | `recent` |
//! | the order of all that | [`Scheduler`] |
//! | gaps as frames | [`gap_frames`] |
//! | how bursty traffic is, in the papers' measure | [`Burstiness`] |
//!
//! Lengths are those on the wire: the Ethernet frame and 24 bytes. PSPacer counts 20 bytes less,
//! and serves the highest rate first among the classes that are due. So do we among classes that
//! became due together (WF2Q, Bennett and Zhang, 1996): a fast class notices a frame's delay most.
//! A slow one that has waited for most of its own interval goes before it.

#![forbid(unsafe_code)]

mod burstiness;
mod class;
mod clock;
mod filter;
mod gap;
mod headers;
mod queue;
mod recent;
mod scheduler;

pub use burstiness::{Burstiness, Window};
pub use class::{ClassSettings, LEAST_RATE, Tree, TreeError};
pub use filter::Filter;
pub use gap::{LEAST_GAP, gap_frames};
pub use headers::{Headers, is_ecn_capable, is_of_neighbours, mark_congestion};
pub use queue::{Discipline, QueueSettings, Waiting};
pub use scheduler::{ClassCounters, Scheduler, Step};
