//! Transfers between two far ends: the data goes straight from one to the other.
//!
//! ```text
//!            ┌── 1 key of this transfer ── A   source end, drives
//!   client ──┤
//!            └── 2 lets A's key in ─────── B   destination end, listens
//!   client ───── 3 Drive { B's address and key, what, where to } → A
//!                A ═══ TLS, both keys pinned ═══ B
//!   client ◄──── 4 Relay { events } ────── A
//! ```
//!
//! | | by ssh | by a daemon |
//! |---|---|---|
//! | 1 A's key | `Bootstrap` without a peer → `Listening` | `DriveKey` → `Listening` |
//! | 2 B admits it | `Bootstrap` with A's key → `Listening` | `Admit` → `Accepted` |
//! | 3 the order | over the same ssh | over the same link as `DriveKey` |
//!
//! A's key exists in A's memory only, for this transfer. A transfer ends with the client's link to
//! A: A interrupts it then, so that it can be resumed.

mod client;
mod outcome;
mod server;

pub(crate) use client::copy_between;
pub(crate) use server::{admit, answer, serve_once};
