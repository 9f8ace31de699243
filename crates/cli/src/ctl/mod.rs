//! `icdc ctl`, and the end of it in a copy that runs.
//!
//! ```text
//!  icdc ctl                        icdc copy
//!  command ── Request (a line) ──► listener ──► controls ──► ceiling of the rate, SIGTERM
//!          ◄── Answer (a line) ───          ◄──          ◄── progress
//! ```
//!
//! | file | what |
//! |---|---|
//! | `command` | `icdc ctl`: which copy is meant, what is asked, what is printed |
//! | `place` | the directories and names of the sockets |
//! | `names` | names of copies, each held by one |
//! | `message` | requests and answers: one JSON object in a line each |
//! | `listener` | the thread of a copy that answers, and looks at the clock where the rate depends on it |
//! | `controls` | what can be changed of a copy, and its state |

mod command;
mod controls;
mod listener;
mod message;
mod names;
mod place;

pub(crate) use command::run;
pub(crate) use controls::Controls;
pub(crate) use listener::Listener;
