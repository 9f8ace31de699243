//! The sending end of a session, without threads, clocks or sockets.
//!
//! ```text
//!            announce …            poll_message: Begin, Entries …, End, Goodbye
//!  scan ───────────────► ┌────────┐ ─────────────────────► first connection
//!       ◄─ Granted ───── │ Sender │
//!  readers ◄ Pack, Read ─│        │ ◄───── on_message: Wants, Done … ── receiver
//!       ─ on_packed … ─► └────────┘
//! ```
//!
//! An executor feeds events in by `on_…`, carries out what [`Sender::poll`] gives, hands what
//! [`Sender::poll_message`] gives to the first connection ahead of all data, and calls
//! [`Sender::on_time`] at [`Sender::next_deadline`]. Data (blocks, packs and the ends of files that
//! [`Sender::on_read`] gives) does not pass through the machine, which knows items by their ids.
//!
//! Nothing is sent that was not asked for: the scan announces entries ahead of the data, the
//! receiver answers what it wants, and the ledger bounds how far ahead the announcements may run.

mod action;
mod announcement;
mod debts;
mod ending;
mod ledger;
mod machine;
mod opening;
mod packs;
mod receipt;
mod removal;

pub use action::{Action, Fate, ReceiptText};
pub use ending::{INTERRUPT_PATIENCE, LAST_WORDS_PATIENCE, REASON_PATIENCE};
pub use ledger::{Counts, Item, Window};
pub use machine::{Found, Grant, Need, Sender, Settings};
pub use removal::{Removal, Removed};
