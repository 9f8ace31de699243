//! Algorithms that the kernel has registered under icdc's names, and their holders.

use std::ffi::OsStr;
use std::path::Path;

use icdc_cc::Algorithm;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{MemberAttr, Struct};
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, MapInfoIter, ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapType};

use super::{is_rodata, rodata};
use crate::congestion::holder::Holder;
use crate::congestion::names::registered;
use crate::congestion::pin;

/// A registration of an algorithm that was found in the kernel: its struct_ops map and link.
pub(super) struct Found {
    pub(super) map: MapHandle,
    /// Id of the BPF link that keeps the registration; `None` where it needs none (kernels before
    /// 6.4).
    pub(super) link: Option<u32>,
}

/// Finds the registration of `algorithm` in the kernel; `None` if there is none that this process
/// may see.
pub(super) fn find(algorithm: &Algorithm) -> Option<Found> {
    let name = algorithm.kernel_name();
    // Maps that only sockets still use have the same name.
    let candidates: Vec<_> = MapInfoIter::default()
        .filter(|map| map.ty == MapType::StructOps && map.name.to_str() == Some(name.as_str()))
        .collect();
    let links = links();
    candidates.into_iter().find_map(|candidate| {
        let link = links.iter().find(|(_, map)| *map == candidate.id).map(|(link, _)| *link);
        let map = MapHandle::from_map_id(candidate.id).ok()?;
        let by_itself = || candidate.map_flags & libbpf_sys::BPF_F_LINK == 0 && is_in_use(&map);
        (link.is_some() || by_itself()).then_some(Found { map, link })
    })
}

/// Ids of all struct_ops links with the ids of their maps.
fn links() -> Vec<(u32, u32)> {
    let links = LinkInfoIter::default();
    links
        .filter_map(|link| match link.info {
            LinkTypeInfo::StructOps(info) => Some((link.id, info.map_id)),
            _ => None,
        })
        .collect()
}

/// Whether the struct_ops map is registered, by the state at the beginning of the kernel's `struct
/// bpf_struct_ops_common_value`; false if that cannot be read.
fn is_in_use(map: &MapHandle) -> bool {
    /// State of a registered map: `BPF_STRUCT_OPS_STATE_INUSE`.
    const IN_USE: u32 = 1;
    let value = map.lookup(&[0; 4], MapFlags::empty()).ok().flatten().unwrap_or_default();
    value.get(4..8).and_then(|state| state.try_into().ok()).is_some_and(|state| u32::from_ne_bytes(state) == IN_USE)
}

/// Finds out what keeps `algorithm`, which is registered, loaded.
pub(in crate::congestion) fn holder(algorithm: &Algorithm) -> Holder {
    let Some(found) = find(algorithm) else {
        let may_ask = MapInfoIter::default().next().is_some() || rustix::process::geteuid().is_root();
        return if may_ask { Holder::Elsewhere } else { Holder::Hidden };
    };
    let Some(link) = found.link else { return Holder::Nobody };
    let path = pin::path(algorithm.name);
    if link_at(&path) == Some(link) {
        return Holder::Pinned(path);
    }
    process_with(link).map_or(Holder::Elsewhere, |(id, command)| Holder::Process { id, command })
}

/// Id of the BPF link that is pinned at `path`; `None` if there is none.
pub(super) fn link_at(path: &Path) -> Option<u32> {
    path.exists().then(|| Link::open(path).ok()?.info().ok().map(|info| info.id)).flatten()
}

/// A process that has a descriptor of the BPF link: its id and command line; `None` if none is
/// visible.
fn process_with(link: u32) -> Option<(u32, String)> {
    let numbers = |path: &Path| -> Vec<u32> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    let wanted = format!("link_id:\t{link}");
    numbers(Path::new("/proc")).into_iter().find_map(|process| {
        let home = Path::new("/proc").join(process.to_string());
        let descriptors = home.join("fd");
        let holds = numbers(&descriptors).into_iter().any(|number| {
            // Only the descriptors of links are read: others' contents can be long.
            std::fs::read_link(descriptors.join(number.to_string()))
                .is_ok_and(|to| to == Path::new("anon_inode:bpf_link"))
                && std::fs::read_to_string(home.join("fdinfo").join(number.to_string()))
                    .is_ok_and(|text| text.lines().any(|line| line == wanted))
        });
        holds.then(|| (process, command_line(&home)))
    })
}

/// Command line of the process with this directory below `/proc`, at most 80 characters.
fn command_line(home: &Path) -> String {
    let words = std::fs::read(home.join("cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&words).replace('\0', " ");
    text.trim_end().chars().take(80).collect()
}

/// Parameters of `algorithm` as it is loaded, with their values; `None` if it is not loaded, or if
/// this process may not see it.
#[must_use]
pub fn parameters(algorithm: &Algorithm) -> Option<Vec<(String, i64)>> {
    // Every algorithm has this function, and every program is bound to the parameters.
    let program = program_of(algorithm, "ssthresh")?;
    let variables = rodata::variables_of_program(program)?;
    let map = map_of(program, is_rodata)?;
    let data = map.lookup(&[0; 4], MapFlags::empty()).ok()??;
    let parameters = algorithm.parameters();
    let read = |name: &'static str| Some((name.to_owned(), rodata::read(&data, &variables, name)?));
    parameters.iter().map(|parameter| read(parameter.name)).collect()
}

/// Id of the eBPF program for a function of `algorithm` as it is loaded; `None` if it cannot be
/// found.
pub(super) fn program_of(algorithm: &Algorithm, function: &str) -> Option<u32> {
    if !registered(algorithm) {
        return None;
    }
    program(&find(algorithm)?.map, function)
}

/// Finds the map that the eBPF program `id` uses and whose name is wanted; `None` if there is none.
pub(super) fn map_of(id: u32, is_wanted: impl Fn(&OsStr) -> bool) -> Option<MapHandle> {
    let wanted = ProgInfoQueryOptions::default().include_map_ids(true);
    let maps = ProgInfoIter::with_query_opts(wanted).find(|info| info.id == id)?.map_ids;
    maps.into_iter().filter_map(|id| MapHandle::from_map_id(id).ok()).find(|map| is_wanted(map.name()))
}

/// Id of the eBPF program of a function in a struct_ops map, where the kernel returns the
/// function's address; `None` if that cannot be found out.
fn program(map: &MapHandle, function: &str) -> Option<u32> {
    let value = map.lookup(&[0; 4], MapFlags::empty()).ok()??;
    let types = Btf::from_vmlinux().ok()?;
    let offset = |of: &str, member: &str| {
        let of = types.type_by_name::<Struct<'_>>(of)?;
        let found = of.iter().find(|found| found.name.is_some_and(|name| name == member))?;
        match found.attr {
            MemberAttr::Normal { offset } => Some(offset as usize / 8),
            MemberAttr::BitField { .. } => None,
        }
    };
    let at = offset("bpf_struct_ops_tcp_congestion_ops", "data")? + offset("tcp_congestion_ops", function)?;
    let id = u64::from_ne_bytes(value.get(at..at + 8)?.try_into().ok()?);
    u32::try_from(id).ok()
}
