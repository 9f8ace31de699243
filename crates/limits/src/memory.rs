//! Memory that this process may still take.

use std::fs;
use std::io;
use std::path::PathBuf;

use icdc_units::ByteCount;
use rustix::process::{Resource, getrlimit};

use crate::cgroup;

/// Limit of the process's own: `ulimit -v` or `ulimit -d`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfProcess {
    /// The limit in bytes.
    pub most: ByteCount,
    /// Bytes below the limit that are free.
    pub left: ByteCount,
    /// The command that sets it, such as `ulimit -v`.
    pub option: &'static str,
}

/// Limit of a control group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfGroup {
    /// Its directory.
    pub group: PathBuf,
    /// The limit in bytes.
    pub most: ByteCount,
    /// Bytes below the limit that are free; memory that the kernel can reclaim at once counts as free.
    pub left: ByteCount,
}

/// The tightest limit that `ulimit` sets to this process's own memory.
#[must_use]
pub fn of_process() -> Option<OfProcess> {
    let used = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut used = used.split(' ').map(|pages| pages.trim().parse::<u64>().unwrap_or(0));
    let page = rustix::param::page_size() as u64;
    // The whole address space, and of it what is data.
    let (all, data) = (used.next().unwrap_or(0) * page, used.nth(4).unwrap_or(0) * page);
    let bound = |resource, used, option| {
        let most = getrlimit(resource).current?;
        let (most, used) = (ByteCount::new(most), ByteCount::new(used));
        Some(OfProcess { most, left: most - used.min(most), option })
    };
    let bounds = [bound(Resource::As, all, "ulimit -v"), bound(Resource::Data, data, "ulimit -d")];
    bounds.into_iter().flatten().min_by_key(|bound| bound.left)
}

/// Why so much memory could not be had, which `cause` says: the limit that leaves less, if it is one.
#[must_use]
pub fn refused(needed: ByteCount, cause: &io::Error) -> String {
    if let Some(OfProcess { most, left, option }) = of_process().filter(|bound| bound.left < needed) {
        return format!(
            "{needed} are needed and {left} are left of the {most} that this process may have (`{option}`); raise the limit"
        );
    }
    match of_groups().filter(|bound| bound.left < needed) {
        Some(OfGroup { group, most, left }) => format!(
            "{needed} are needed and {left} are left of the {most} that the control group {} may have; raise the limit",
            group.display()
        ),
        None => format!("{needed} are needed: {cause}"),
    }
}

/// The tightest limit of the control groups that this process is in.
#[must_use]
pub fn of_groups() -> Option<OfGroup> {
    let bounds = cgroup::own_and_above("memory").into_iter().filter_map(|group| {
        let number = |file| cgroup::number(&group, file);
        let most = [number("memory.max"), number("memory.high")].into_iter().flatten().min()?;
        let used = number("memory.current").unwrap_or(0);
        let keyed = |key| cgroup::keyed(&group, "memory.stat", key).unwrap_or(0);
        let reclaimable: u64 = ["active_file", "inactive_file", "slab_reclaimable"].map(keyed).iter().sum();
        let (most, used) = (ByteCount::new(most), ByteCount::new(used.saturating_sub(reclaimable)));
        Some(OfGroup { group, most, left: most - used.min(most) })
    });
    bounds.min_by_key(|bound| bound.left)
}

/// The tightest limit in bytes of all: of this process, and of the control groups that it is in, of either
/// version. `None` where none is set.
#[must_use]
pub fn tightest() -> Option<ByteCount> {
    /// The first version has a number where nothing is limited, close to the largest.
    const NONE: u64 = 1 << 60;
    let groups = cgroup::own_and_above("memory").into_iter().flat_map(|group| {
        let files = ["memory.max", "memory.high", "memory.limit_in_bytes"];
        files.map(|file| cgroup::number(&group, file)).into_iter().flatten().filter(|most| *most < NONE).min()
    });
    let groups = groups.min().map(ByteCount::new);
    let own = of_process().map(|found| found.most);
    [own, groups].into_iter().flatten().min()
}
