//! Algorithms for processes that may not load any, as a daemon's sessions that act as a user: a
//! process with more rights lets their sockets use one.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;

use icdc_cc::Algorithm;

use super::hold::{Hold, Taken, take};
use super::names::find;
use super::told::Told;

/// The process with more rights, as this one sees it.
pub trait Lender: Send + Sync {
    /// Lets the socket use `algorithm`, one of ours, and tells it of the socket. Answers whether it
    /// has been told, or why the socket cannot have it; `None` if nobody answers.
    fn lend(&self, socket: BorrowedFd<'_>, algorithm: &str, told: &Told) -> Option<Result<bool, String>>;
}

static LENDER: OnceLock<Box<dyn Lender>> = OnceLock::new();

/// From now on this process asks `lender` for every algorithm of ours. The first one counts.
pub fn borrow_from(lender: Box<dyn Lender>) {
    let _ = LENDER.set(lender);
}

/// A socket of another process has what it asked for.
#[derive(Debug)]
pub struct Lent {
    /// Keeps what this process has loaded for it. The socket keeps its algorithm without.
    pub hold: Option<Hold>,
    /// The algorithm knows what it was to be told.
    pub is_told: bool,
}

/// Lets a socket of another process use one of ours, loaded if it must be, and tells it of the socket.
///
/// # Errors
/// It cannot be had: why, as a sentence for the user.
pub fn lend(socket: &impl AsFd, algorithm: &str, told: &Told) -> Result<Lent, String> {
    let algorithm = find(algorithm).ok_or_else(|| format!("icdc has no congestion control {algorithm:?}"))?;
    let Taken { hold, is_told } = take(socket, algorithm, told)?;
    Ok(Lent { hold, is_told })
}

/// Asks the lender; `None` if there is none, or no answer.
pub(super) fn borrow(fd: &impl AsFd, algorithm: &Algorithm, told: &Told) -> Option<Result<Taken, String>> {
    let lent = LENDER.get()?.lend(fd.as_fd(), algorithm.name, told)?;
    Some(lent.map(|is_told| Taken { hold: None, is_told }))
}
