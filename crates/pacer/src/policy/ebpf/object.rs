//! The object that `build.rs` makes of `c/policy.c`, as the kernel gets it.

use std::path::Path;

use icdc_tcp::congestion::{Obstacle, log_by_tracing};
use libbpf_rs::{ErrorKind, Object, ObjectBuilder, OpenObject};

use super::failure::refused;
use super::layout::GOVERNED;
use super::places::notes;
use crate::policy::{Cgroup, PolicyError};

/// Name, in the eBPF object, of the socket-local storage with a record for each socket under a
/// policy; all cgroups share this map, which is pinned as [`notes`].
pub(super) const NOTES: &str = "icdc_governed";
/// Name of the eBPF map of one cgroup's IPv4 prefixes.
pub(super) const V4: &str = "icdc_policy_v4";
/// Name of the eBPF map of one cgroup's IPv6 prefixes.
pub(super) const V6: &str = "icdc_policy_v6";
/// Name of the eBPF map that holds the path of the cgroup.
pub(super) const PLACE: &str = "icdc_place";
/// Name of the eBPF program that runs when a connection is established, and applies the policy to
/// its socket.
pub(super) const GOVERN: &str = "govern";
/// Name of the eBPF program that lists the sockets under a policy.
pub(super) const REPORT: &str = "report";

/// Bytes aligned to 8, as loaders need them, which read structures in place.
#[repr(C, align(8))]
struct Aligned<Bytes: ?Sized>(Bytes);

/// The eBPF object (ELF) that was built from `c/policy.c`; empty if the build could not make it.
static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/policy.bpf.o")));

/// Loads the program that applies policies into the kernel for `cgroup`; it shares the pinned map
/// of sockets' records, if there is one, with those of other cgroups.
pub(super) fn govern(cgroup: &Cgroup) -> Result<Object, PolicyError> {
    let path = &cgroup.path;
    let mut open = open(path)?;
    let mut variables = open.maps_mut().find(|map| map.name().to_string_lossy().ends_with(".rodata"));
    let number =
        variables.as_mut().and_then(|map| map.initial_value_mut()).and_then(|data| data.first_chunk_mut::<8>());
    // The only variable, of 64 bits.
    *number.ok_or(PolicyError::Call {
        path: path.clone(),
        call: "open",
        reason: "the object lacks its variable".into(),
    })? = cgroup.id.to_ne_bytes();
    leave_out(&mut open, REPORT);
    share_notes(&mut open)?;
    open.load().map_err(refused(path, "the kernel refuses the program"))
}

/// Loads the program that lists the sockets under a policy into the kernel; the map of their
/// records must be pinned.
pub(super) fn report() -> Result<Object, PolicyError> {
    let mut open = open(&notes())?;
    leave_out(&mut open, GOVERN);
    for mut map in open.maps_mut().filter(|map| [V4, V6, PLACE].iter().any(|name| map.name() == *name)) {
        map.set_autocreate(false).map_err(refused(&notes(), "map"))?;
    }
    share_notes(&mut open)?;
    // The capabilities have been checked: what is refused now is refused to everybody.
    open.load().map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => PolicyError::NoIterators { reason: format!("{error:#}") },
        _ => refused(&notes(), "the kernel refuses the program")(error),
    })
}

/// Opens the eBPF object without loading anything yet; `path` is named in errors.
fn open(path: &Path) -> Result<OpenObject, PolicyError> {
    if OBJECT.0.is_empty() {
        let reason = option_env!("ICDC_PACER_WITHOUT_EBPF").unwrap_or("this build has no eBPF objects");
        return Err(PolicyError::Obstacle(Obstacle::NotBuilt(reason)));
    }
    log_by_tracing();
    let opened = ObjectBuilder::default().name("icdc_policy").and_then(|builder| builder.open_memory(&OBJECT.0));
    opened.map_err(refused(path, "the object cannot be read"))
}

/// Keeps the program of this name in the object from being loaded.
fn leave_out(open: &mut OpenObject, program: &str) {
    for mut program in open.progs_mut().filter(|one| one.name() == program) {
        program.set_autoload(false);
    }
}

/// Makes the object use the pinned map of sockets' records, if there is one, in place of its own.
fn share_notes(open: &mut OpenObject) -> Result<(), PolicyError> {
    let path = notes();
    if path.exists()
        && let Some(mut map) = open.maps_mut().find(|map| map.name() == NOTES)
    {
        map.reuse_pinned_map(&path).map_err(refused(&path, "open"))?;
        if map.value_size() as usize != GOVERNED {
            return Err(PolicyError::OtherVersion { path });
        }
    }
    Ok(())
}
