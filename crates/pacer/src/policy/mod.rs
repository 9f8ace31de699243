//! Policies: what every new TCP connection of a cgroup to or from a prefix gets, in any process, in
//! any network namespace.
//!
//! ```text
//! /sys/fs/bpf/icdc/policy/          pinned: it stays when a process ends
//!   governed                        socket-local storage, shared by all cgroups: a record in each
//!                                   socket of the policy that it got
//!   CGROUP-ID/ link                 the program, attached to the cgroup
//!              v4 v6                prefixes with what they get
//!              place                the path of the cgroup, for people
//! ```
//!
//! | file | what |
//! |---|---|
//! | `c/policy.c` | the program in the kernel, and the report on sockets |
//! | `segment_limit` | how much a paced connection sends at once |
//! | `cgroup` | the cgroup that is meant |
//! | `congestion` | the algorithm that is meant, loaded if it must be |
//! | `ebpf` | making, changing and reading what is pinned (feature `ebpf`) |
//! | `without` | the same functions in a build without it |
//!
//! A policy acts when a connection is established: what is connected already keeps what it has,
//! also when the policy goes. Of several prefixes the longest decides, of several cgroups that have
//! one the innermost.

mod cgroup;
#[cfg(feature = "ebpf")]
mod congestion;
#[cfg(feature = "ebpf")]
mod ebpf;
#[cfg(feature = "ebpf")]
mod segment_limit;
#[cfg(not(feature = "ebpf"))]
mod without;

use std::net::SocketAddr;
use std::path::PathBuf;

use icdc_netlink::NetlinkError;
use icdc_scheduler::LEAST_RATE;
use icdc_tcp::congestion::{Obstacle, PinError};
use icdc_units::{ByteCount, Prefix, Rate, Span};
use thiserror::Error;

pub use cgroup::Cgroup;
#[cfg(feature = "ebpf")]
pub use ebpf::{Watch, add, list, remove, remove_all};
#[cfg(not(feature = "ebpf"))]
pub use without::{Watch, add, list, remove, remove_all};

/// Settings that new TCP connections of a cgroup to or from a prefix get from the kernel. `None`
/// leaves a setting as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Prefix of the other end's address.
    pub to: Prefix,
    /// Limit of the rate of TCP payload, by the kernel's own pacing.
    pub rate: Option<Rate>,
    /// Congestion control, by the kernel's name or icdc's.
    pub congestion: Option<String>,
    /// Segments that may leave before the first acknowledgement.
    pub initial_window: Option<u32>,
    /// Largest congestion window, in segments.
    pub largest_window: Option<u32>,
    /// Segments that a paced connection may send at once, where the device can be configured.
    pub burst: Option<u32>,
}

/// Highest rate of a policy: `bpf_setsockopt` takes 32 bits of bytes per second, of which all ones
/// mean none.
pub const LARGEST_RATE: Rate = Rate::from_bytes_per_second(u32::MAX as u64 - 1);
/// Largest burst of a policy, in segments: what a device can be configured for.
pub const LARGEST_BURST: u32 = 65_535;
/// Largest window of a policy, in segments: 1 GiB, TCP's largest, in segments of 1 KiB.
pub const LARGEST_WINDOW: u32 = 1 << 20;

impl Policy {
    /// Checks that the policy sets something, and nothing out of range.
    ///
    /// # Errors
    /// The policy sets nothing, or something out of range.
    fn check(&self) -> Result<(), PolicyError> {
        let Self { rate, congestion, initial_window, largest_window, burst, .. } = self;
        if rate.is_none() && congestion.is_none() && initial_window.is_none() && largest_window.is_none() {
            return Err(PolicyError::Empty);
        }
        if let Some(rate) = rate.filter(|rate| !(LEAST_RATE..=LARGEST_RATE).contains(rate)) {
            return Err(PolicyError::Rate(rate));
        }
        if burst.is_some_and(|segments| rate.is_none() || !(1..=LARGEST_BURST).contains(&segments)) {
            return Err(PolicyError::Burst);
        }
        let window = [initial_window, largest_window].into_iter().flatten();
        match window.copied().find(|segments| !(1..=LARGEST_WINDOW).contains(segments)) {
            Some(segments) => Err(PolicyError::Window(segments)),
            None => Ok(()),
        }
    }
}

/// A policy in force, as [`list`] shows it, with its cgroup and the number of its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Settings of the policy; its algorithm by the kernel's name.
    pub policy: Policy,
    /// Path of the cgroup whose connections it governs.
    pub cgroup: PathBuf,
    /// The cgroup has been removed: the policy has nothing left to act on.
    pub cgroup_is_gone: bool,
    /// Number of connections that have got the policy so far.
    pub connections: u64,
}

/// Result of [`add`]: the policy that is in force now, and what else has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// Path of the cgroup whose connections it governs.
    pub cgroup: PathBuf,
    /// Settings of the policy; its algorithm by the kernel's name.
    pub policy: Policy,
    /// Whether it replaced a policy for the same prefix.
    pub replaced: bool,
    /// Side effects and warnings: sentences for the user.
    pub notes: Vec<String>,
}

/// A socket that got a policy, with its state and rate now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Governed {
    /// Number of the socket, unique over all network namespaces.
    pub cookie: u64,
    /// Address and port of this end.
    pub local: SocketAddr,
    /// Address and port of the other end.
    pub remote: SocketAddr,
    /// The policy as it was when the socket got it.
    pub policy: Policy,
    /// Path of the policy's cgroup; `None` if the policy has been removed since.
    pub cgroup: Option<PathBuf>,
    /// Parts of the policy that the kernel refused to this socket.
    pub refused: Vec<&'static str>,
    /// Bytes that the other end has acknowledged.
    pub acknowledged: ByteCount,
    /// The rate at which the socket is paced now; `None` if it is not.
    pub pacing_rate: Option<Rate>,
    /// The ceiling of that rate; `None` if there is none. Programs may change it after the policy has
    /// set it.
    pub ceiling: Option<Rate>,
    /// Smoothed round-trip time of the connection.
    pub rtt: Span,
    /// Congestion window in segments.
    pub window: u32,
    /// Number of segments retransmitted so far.
    pub retransmitted: u32,
    /// Name of the congestion control in use.
    pub congestion: String,
}

/// Reason why policies cannot be set, removed or listed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The policy would change nothing.
    #[error("a policy sets something: a rate, a congestion control or a window")]
    Empty,
    /// The rate is beyond what the kernel takes.
    #[error("{0} cannot be the rate of a policy: it takes {LEAST_RATE} to {LARGEST_RATE}")]
    Rate(Rate),
    /// The window, in segments, is beyond what makes sense.
    #[error("a window of {0} segments cannot be: it takes 1 to {LARGEST_WINDOW}")]
    Window(u32),
    /// A burst limit without a rate: unpaced connections have no bursts to limit.
    #[error("a burst is one of a paced connection, of 1 to {LARGEST_BURST} segments: give a rate as well")]
    Burst,
    /// The device of the prefix is unknown.
    #[error("no route leads to {0}, so there is no device whose bursts could be limited: leave the burst out")]
    NoRoute(Prefix),
    /// The kernel does not return or change devices and routes.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// This kernel, process or build cannot have policies.
    #[error("policies are eBPF: {0}")]
    Obstacle(Obstacle),
    /// The policy cannot be pinned.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// No cgroup v2 hierarchy is mounted.
    #[error("no cgroup v2 hierarchy is mounted; as root: mkdir -p /run/cgroup2 && mount -t cgroup2 none /run/cgroup2")]
    NoCgroups,
    /// The path is not a cgroup.
    #[error("{}: {reason}", .path.display())]
    Cgroup {
        /// Path that was named.
        path: PathBuf,
        /// Reason why it cannot be used.
        reason: String,
    },
    /// The congestion control is not available.
    #[error("{0}")]
    Congestion(String),
    /// There is no policy for this prefix.
    #[error("{} has no policy for {to}; `icdc pace policy list` tells what there is", .cgroup.display())]
    NotThere {
        /// Requested prefix.
        to: Prefix,
        /// Cgroup in which it was looked for.
        cgroup: PathBuf,
    },
    /// The policies were pinned by another version of icdc.
    #[error("{}: made by another version of icdc; `icdc pace policy remove --all` removes it", .path.display())]
    OtherVersion {
        /// Path of the pin.
        path: PathBuf,
    },
    /// The kernel does not load the iterator that lists sockets, whoever asks.
    #[error(
        "the kernel does not load the BPF iterator that lists the sockets under a policy, as kernels in lockdown mode do not ({reason}); the policies are in force, and `ss -tie` shows each connection's rate (pacing_rate)"
    )]
    NoIterators {
        /// The kernel's error.
        reason: String,
    },
    /// The kernel refused a system call.
    #[error("{}: {call}: {reason}", .path.display())]
    Call {
        /// Path of the file that the call was for.
        path: PathBuf,
        /// System call that failed.
        call: &'static str,
        /// The kernel's error.
        reason: String,
    },
}

impl PolicyError {
    /// Whether the command requested something impossible, so that the usage was wrong.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Empty | Self::Rate(_) | Self::Window(_) | Self::Burst)
    }

    /// Whether it failed for lack of privileges: another user, such as root, could do it.
    #[must_use]
    pub fn lacks_privilege(&self) -> bool {
        matches!(self, Self::Obstacle(Obstacle::Capability(_) | Obstacle::UserNamespace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        let to = "192.0.2.0/24".parse().unwrap();
        Policy { to, rate: None, congestion: None, initial_window: None, largest_window: None, burst: None }
    }

    #[test]
    fn a_policy_sets_something_within_what_the_kernel_takes() {
        assert!(matches!(policy().check(), Err(PolicyError::Empty)));
        for (rate, fits) in [("7kbit", false), ("8kbit", true), ("34gbit", true), ("35gbit", false)] {
            let policy = Policy { rate: Some(rate.parse().unwrap()), ..policy() };
            assert_eq!(policy.check().is_ok(), fits, "{rate}");
        }
        for (segments, fits) in [(0, false), (1, true), (LARGEST_WINDOW, true), (LARGEST_WINDOW + 1, false)] {
            let initial = Policy { initial_window: Some(segments), ..policy() };
            let largest = Policy { largest_window: Some(segments), ..policy() };
            assert_eq!((initial.check().is_ok(), largest.check().is_ok()), (fits, fits), "{segments}");
        }
        assert!(Policy { congestion: Some("reno".into()), ..policy() }.check().is_ok());
        let rate = Some(LEAST_RATE);
        for (burst, rate, fits) in [(2, rate, true), (0, rate, false), (LARGEST_BURST + 1, rate, false)] {
            assert_eq!(Policy { burst: Some(burst), rate, ..policy() }.check().is_ok(), fits, "{burst}");
        }
        let unpaced = Policy { burst: Some(2), congestion: Some("reno".into()), ..policy() };
        assert!(matches!(unpaced.check(), Err(PolicyError::Burst)));
    }
}
