//! The congestion control of one socket, by the name that a user gives.

use std::os::fd::AsFd;

use icdc_cc::Algorithm;
use icdc_rate::known_paths::Resumption;
use icdc_units::Span;
use socket2::{Domain, Protocol, Socket, Type};

#[cfg(feature = "ebpf")]
use super::ebpf::tell;
use super::hold::{self, Hold, SetResult, held, take};
use super::names::{find, registered};
use super::obstacle::obstacle;
use super::path_hints::PathHints;
#[cfg(not(feature = "ebpf"))]
use super::without::tell;
use crate::{CongestionError, OptionError, Privileges, allowed_congestion, congestion, info, set_congestion};

/// Result of choosing a socket's congestion control: what it uses now, and why, if that is not what
/// was requested.
#[derive(Debug)]
pub struct Chosen {
    /// Kernel name of the congestion control that the socket uses now.
    pub name: String,
    /// Notice for the user if the socket does not use what was requested: the reason, and what it
    /// uses instead; `None` if it does.
    pub instead: Option<String>,
    /// Hold that keeps the loaded algorithm for the next socket; `None` if this process has loaded
    /// none. This socket keeps its algorithm without it.
    pub hold: Option<Hold>,
    /// Whether the algorithm has received all hints.
    pub has_hints: bool,
}

/// Name of the algorithm of icdc that finds the path's free rate by itself, the first choice for
/// all sockets.
const BEST: &str = "icdc";
/// Name of a plain algorithm, which every kernel has and every user may choose, set for a moment to
/// restart another one.
const PLAIN: &str = "reno";
/// Round-trip time below which a connection keeps the system's congestion control: any algorithm
/// fills so short a path at once, and delays within a host are longer than the round trip.
const SHORT: Span = Span::from_millis(2);

/// Lets the socket use the congestion control `name`: the kernel's own if it has one of that name,
/// else ours, which is loaded if it must be. Where it cannot be had, the socket uses cubic or keeps
/// what it has, and `instead` says why.
///
/// # Errors
/// Neither the kernel nor icdc knows the name.
pub fn choose(fd: &impl AsFd, name: &str, privileges: &Privileges) -> Result<Chosen, CongestionError> {
    let ours = find(name);
    // A kernel that has it as a module loads that.
    let refused = match set_congestion(fd, name) {
        Ok(()) => {
            return Ok(Chosen { name: name.to_owned(), instead: None, hold: ours.and_then(held), has_hints: false });
        }
        Err(CongestionError::Unknown { .. }) if ours.is_some() => None,
        Err(error @ CongestionError::Unknown { .. }) => return Err(error),
        Err(error) => Some(error.to_string()),
    };
    let reason = match (refused, ours) {
        (None, Some(algorithm)) => match set_with(privileges, fd, algorithm, PathHints::default()) {
            Ok(chosen) => return Ok(chosen),
            Err(reason) => reason,
        },
        (reason, _) => reason.unwrap_or_default(),
    };
    let used = match set_congestion(fd, "cubic") {
        Ok(()) => "cubic".to_owned(),
        // What the system gives to every socket.
        Err(_) => congestion(fd)?,
    };
    let instead = Some(format!("congestion control {used} is used in place of {name}: {reason}"));
    Ok(Chosen { name: used, instead, hold: None, has_hints: false })
}

/// Gives the socket the best algorithm that is available here: icdc's own, with these `hints`, or
/// the system's default if that cannot be loaded. An established connection whose path is shorter
/// than 2 ms keeps the system's.
///
/// # Errors
/// The socket is none of TCP.
pub fn choose_best(fd: &impl AsFd, hints: PathHints, privileges: &Privileges) -> Result<Chosen, CongestionError> {
    // The mean is of few packets, and one of them whose acknowledgement was held back for 40 ms is
    // enough to make a short path look long.
    let short = info(fd).is_ok_and(|info| !info.min_rtt.is_zero() && info.min_rtt < SHORT);
    if !short && let Some(algorithm) = find(BEST) {
        match set_with(privileges, fd, algorithm, hints) {
            Ok(chosen) => return Ok(chosen),
            Err(reason) => tracing::info!("congestion control stays what the system gives: {reason}"),
        }
    }
    keep(fd)
}

/// Describes the socket's congestion control as a choice, and leaves it as it is.
///
/// # Errors
/// The socket is none of TCP.
pub fn keep(fd: &impl AsFd) -> Result<Chosen, CongestionError> {
    Ok(Chosen { name: congestion(fd)?, instead: None, hold: None, has_hints: false })
}

/// Begins to load in the background the algorithm that [`choose_best`] will soon give to a socket,
/// if it is available.
pub fn load_ahead() {
    if let Some(algorithm) = find(BEST).filter(|algorithm| !registered(algorithm) && obstacle(algorithm).is_none()) {
        hold::load_ahead(algorithm);
    }
}

/// Whether [`choose_best`] may give an algorithm that [finds the rate](finds_the_rate), as far as
/// can be told without a socket.
#[must_use]
pub fn may_find_the_rate() -> bool {
    find(BEST).is_some_and(|algorithm| {
        obstacle(algorithm).is_none() || allowed_congestion().contains(&algorithm.kernel_name())
    })
}

/// Whether the algorithm of this name paces by itself just below the rate that the path has free.
#[must_use]
pub fn finds_the_rate(name: &str) -> bool {
    find(name).is_some_and(|algorithm| algorithm.name == BEST)
}

/// Restarts the congestion control of an established connection, which has carried little, with
/// what is `known` of its path, if the algorithm can do so ([`finds_the_rate`]); true if it does.
pub fn begin_anew(fd: &impl AsFd, known: Resumption) -> bool {
    let Some(algorithm) = find(BEST) else { return false };
    let name = algorithm.kernel_name();
    // One that is not registered any more goes on where it has it, and cannot be taken again.
    if congestion(fd).is_ok_and(|current| current != name) || !registered(algorithm) {
        return false;
    }
    tell(
        fd,
        algorithm,
        held(algorithm).map(|hold| hold.loaded).as_deref(),
        &PathHints { known: Some(known), ..PathHints::default() },
    );
    // Only a socket that takes the algorithm asks what is known.
    let anew = set_congestion(fd, PLAIN).and_then(|()| set_congestion(fd, &name));
    if let Err(error) = &anew {
        tracing::debug!("a connection does not begin anew: {error}");
        // Unloaded just now: better than the plain one.
        let _ = set_congestion(fd, "cubic");
    }
    anew.is_ok()
}

/// Chooses as [`choose`], for sockets that are to be made: loads the algorithm if necessary, and
/// returns the name that they can set before they connect.
///
/// # Errors
/// Neither the kernel nor icdc knows the name, or there is no socket to try it on.
pub fn choose_in_advance(name: &str, privileges: &Privileges) -> Result<Chosen, CongestionError> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))
        .or_else(|_| Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP)))
        .map_err(|cause| OptionError { call: "socket", peer: None, cause })?;
    choose(&socket, name, privileges)
}

/// Sets the congestion control of a socket, which may be another process's, to icdc's algorithm of
/// this name, which is loaded if necessary, and passes the hints to it.
///
/// # Errors
/// It cannot be had: why, as a sentence for the user.
pub fn set_ours(socket: &impl AsFd, name: &str, hints: &PathHints) -> Result<SetResult, String> {
    let algorithm = find(name).ok_or_else(|| format!("icdc has no congestion control {name:?}"))?;
    take(socket, algorithm, hints)
}

/// Sets one of icdc's algorithms on a socket, by the helper of these privileges if there is one; by
/// this process if there is none or it does not answer. An error is a sentence for the user.
fn set_with(
    privileges: &Privileges,
    fd: &impl AsFd,
    algorithm: &'static Algorithm,
    hints: PathHints,
) -> Result<Chosen, String> {
    let helper = privileges.helper();
    let SetResult { hold, has_hints } =
        match helper.and_then(|to| to.set_congestion(fd.as_fd(), algorithm.name, &hints)) {
            Some(set) => SetResult { hold: None, has_hints: set? },
            None => take(fd, algorithm, &hints)?,
        };
    Ok(Chosen { name: algorithm.kernel_name(), instead: None, hold, has_hints })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::BorrowedFd;
    use std::sync::Arc;

    use icdc_units::Rate;

    use super::*;

    #[test]
    fn an_algorithm_that_is_gone_stays_where_it_is_used() {
        // One test at a time has the kernel's names.
        let lock = std::fs::File::create(std::env::temp_dir().join("icdc-test-algorithms.lock")).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (first, second) = (connect(), connect());
        let chosen = choose(&first, BEST, &Privileges::own()).unwrap();
        if let Some(why) = chosen.instead {
            eprintln!("SKIPPED: {why}");
            return;
        }
        let known = Resumption { rate: Rate::from_bits_per_second(100_000_000), round_trip: Span::from_millis(100) };
        assert!(begin_anew(&first, known));
        assert!(!begin_anew(&second, known), "it has another one");
        drop(chosen.hold);
        // Another process of this host may have loaded it as well.
        assert!(!begin_anew(&first, known) || super::super::names::is_available(&chosen.name));
        assert_eq!(congestion(&first).unwrap(), chosen.name);
    }

    /// Has congestion control for some sockets and not for others.
    struct Helper(Result<bool, String>);

    impl crate::PrivilegedHelper for Helper {
        fn set_congestion(&self, _: BorrowedFd<'_>, algorithm: &str, _: &PathHints) -> Option<Result<bool, String>> {
            assert_eq!(algorithm, BEST);
            Some(self.0.clone())
        }

        fn known_path(&self, _: BorrowedFd<'_>) -> Option<Resumption> {
            None
        }

        fn remember_path(&self, _: BorrowedFd<'_>, _: Resumption) {}

        fn prepare_to_send(&self, _: BorrowedFd<'_>) {}
    }

    #[test]
    fn each_socket_is_set_by_the_helper_of_its_own_privileges() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let kept = congestion(&socket).unwrap();
        let chosen = |answer| {
            let privileges = Privileges::of_helper(Arc::new(Helper(answer)));
            choose_best(&socket, PathHints::default(), &privileges).unwrap()
        };
        let (set, refused) = (chosen(Ok(true)), chosen(Err("not here".to_owned())));
        assert_eq!((set.name, set.has_hints, set.hold.is_none()), (find(BEST).unwrap().kernel_name(), true, true));
        assert_eq!((refused.name, refused.has_hints), (kept, false));
    }
}
