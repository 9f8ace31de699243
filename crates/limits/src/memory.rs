//! Memory that this process may still take.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use icdc_units::ByteCount;
use rustix::process::{Resource, getrlimit};

use crate::cgroup;

/// A limit on this process's own memory by `ulimit -v` or `ulimit -d`, and the room left below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfProcess {
    /// The limit in bytes.
    pub most: ByteCount,
    /// Bytes below the limit that are free.
    pub left: ByteCount,
    /// The command that sets it, such as `ulimit -v`.
    pub option: &'static str,
}

/// A memory limit of a control group that this process is in, and the room left below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfGroup {
    /// Its directory.
    pub group: PathBuf,
    /// The limit in bytes.
    pub most: ByteCount,
    /// Bytes below the limit that are free; memory that the kernel can reclaim at once counts as
    /// free.
    pub left: ByteCount,
}

/// The memory limit by `ulimit` that leaves this process the least room; `None` if none is set.
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

/// Slack with which a limit is blamed for memory that was refused: other threads may have freed so
/// many bytes between the refusal and the look at what is left.
pub(crate) const GIVEN_BACK: ByteCount = ByteCount::from_mib(64);

/// Sentence for users that tells why `needed` bytes were refused: the limit that leaves less, if
/// there is one, else `cause`.
#[must_use]
pub fn refused(needed: ByteCount, cause: &io::Error) -> String {
    if let Some(OfProcess { most, left, option }) = of_process().filter(|bound| bound.left < needed + GIVEN_BACK) {
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

/// The memory limit that leaves the least room, among the control groups (v1 or v2) that this
/// process is in; `None` if none is set or the groups cannot be seen.
#[must_use]
pub fn of_groups() -> Option<OfGroup> {
    let bounds = cgroup::own_and_above("memory").into_iter().filter_map(|group| {
        let number = |file| cgroup::number(&group, file);
        let most = limit(&group, LIMITS)?;
        let used = number("memory.current").or_else(|| number("memory.usage_in_bytes")).unwrap_or(0);
        let keyed = |key: &str| cgroup::keyed(&group, "memory.stat", key);
        // In the first version, those without this beginning leave the groups below out.
        let with_below = |key: &str| keyed(&format!("total_{key}")).or_else(|| keyed(key)).unwrap_or(0);
        let reclaimable: u64 = ["active_file", "inactive_file", "slab_reclaimable"].map(with_below).iter().sum();
        let used = ByteCount::new(used.saturating_sub(reclaimable));
        Some(OfGroup { group, most, left: most - used.min(most) })
    });
    bounds.min_by_key(|bound| bound.left)
}

/// Files of a control group with the memory limits beyond which the kernel kills a process.
const HARD_LIMITS: &[&str] = &["memory.max", "memory.limit_in_bytes"];
/// Files with the [`HARD_LIMITS`], and the one with the limit beyond which the kernel slows a
/// process down.
const LIMITS: &[&str] = &["memory.max", "memory.limit_in_bytes", "memory.high"];

/// The lowest memory limit that a control group has in these files; `None` if none is set.
fn limit(group: &Path, files: &[&str]) -> Option<ByteCount> {
    /// The first version has a number where nothing is limited, close to the largest.
    const NONE: u64 = 1 << 60;
    let limits = files.iter().filter_map(|file| cgroup::number(group, file)).filter(|most| *most < NONE);
    limits.min().map(ByteCount::new)
}

/// The lowest memory limit on this process, by `ulimit` or by a control group (v1 or v2) that it is
/// in, whatever is in use already; `None` if none is set.
#[must_use]
pub fn tightest() -> Option<ByteCount> {
    let own = of_process().map(|found| found.most);
    [own, tightest_group(LIMITS).map(|(_, most)| most)].into_iter().flatten().min()
}

/// Checks that the control groups of this process allow `needed` bytes in all, whatever is in use
/// already; nothing is reserved. Beyond their limit the kernel kills a process instead of refusing
/// memory.
///
/// # Errors
/// The group that may not.
pub fn check_group_limits(needed: ByteCount) -> Result<(), String> {
    match tightest_group(HARD_LIMITS).filter(|(_, most)| *most < needed) {
        Some((group, most)) => Err(format!(
            "{needed} are needed, and the control group {} may have {most}; raise the limit",
            group.display()
        )),
        None => Ok(()),
    }
}

/// The control group of this process (v1 or v2) with the lowest memory limit in these files, and
/// that limit; `None` if no limit is set.
fn tightest_group(files: &[&str]) -> Option<(PathBuf, ByteCount)> {
    let groups = cgroup::own_and_above("memory").into_iter();
    groups.filter_map(|group| limit(&group, files).map(|most| (group, most))).min_by_key(|(_, most)| *most)
}
