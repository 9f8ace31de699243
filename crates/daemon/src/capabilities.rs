//! Capabilities that a daemon that runs as root gives up once it listens.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use icdc_trust::{AuthorizedKeys, Grant};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set};
use rustix::thread::{remove_capability_from_bounding_set, set_capabilities};

/// Capabilities that the daemon keeps: for becoming the users of sessions, for ending them, and for
/// buffers and congestion control of their sockets, which `BPF` and `PERFMON` load.
const KEPT: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON);

/// Whether [`give_up`] has given up capabilities of this process.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Whether this process has given up rights of root that a session of root would need.
pub(crate) fn have_been_given_up() -> bool {
    GIVEN_UP.load(Ordering::Relaxed)
}

/// Gives up, for this process and all that it starts, the capabilities that no session needs: none
/// if a key acts as root, or if there are no keys yet. To be called before there are other threads.
///
/// # Errors
/// The kernel refuses a system call.
pub(crate) fn give_up(keys: &AuthorizedKeys) -> io::Result<()> {
    let acts_as_root = |grant: &Grant| grant.user.as_deref().is_none_or(|user| user == "root");
    let own = capabilities(None)?;
    if !rustix::process::geteuid().is_root() || keys.is_empty() || keys.grants().any(acts_as_root) {
        return Ok(());
    }
    let left = own.permitted & KEPT;
    for capability in own.permitted.difference(left).iter() {
        if capability_is_in_bounding_set(capability)? {
            // It needs CAP_SETPCAP, which goes with the rest below.
            remove_capability_from_bounding_set(capability)?;
        }
    }
    set_capabilities(None, CapabilitySets { effective: left, permitted: left, inheritable: CapabilitySet::empty() })?;
    GIVEN_UP.store(true, Ordering::Relaxed);
    Ok(())
}
