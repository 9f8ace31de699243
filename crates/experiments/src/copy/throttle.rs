//! A disk limited for some processes: a control group whose writes to one block device the kernel
//! throttles (`blkio.throttle` of cgroup v1, `io.max` of v2).
//!
//! It limits what reaches the device, so Direct I/O waits for as long as a slow disk would take.
//! Other processes keep the disk to themselves.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use icdc_units::Rate;
use rustix::fs::{major, minor};

use crate::harness::error::ExperimentError;

/// Limit of a stalled device: a byte per second, so that no request completes.
const STALLED: Rate = Rate::from_bytes_per_second(1);

/// A control group whose processes the kernel slows in writing to one disk; removed when dropped.
pub(crate) struct Throttle {
    group: PathBuf,
    limit: Limit,
    /// Number of the whole block device, `MAJOR:MINOR`.
    device: String,
}

/// Version of control groups, which determines the file that sets the limit.
enum Limit {
    Version1,
    Version2,
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // Nothing is in it any more, or it is in use and empty soon; it costs nothing.
        let _ = fs::remove_dir(&self.group);
    }
}

impl Throttle {
    /// Makes a group, still without processes, for writes to the device of `path`.
    pub(crate) fn new(path: &Path) -> Result<Self, ExperimentError> {
        let failed = |error| ExperimentError::io(format!("find the block device of {}", path.display()), error);
        let device = device(path).map_err(failed)?;
        let mounts =
            fs::read_to_string("/proc/mounts").map_err(|error| ExperimentError::io("read /proc/mounts", error))?;
        let (top, limit) = hierarchy(&mounts).ok_or_else(|| {
            let cause = io::Error::other("no control group can limit writes: neither blkio (v1) nor io (v2) is there");
            ExperimentError::io("make a slow disk", cause)
        })?;
        let group = top.join(format!("icdc-lab-{}", std::process::id()));
        fs::create_dir(&group).map_err(|error| ExperimentError::io(format!("make {}", group.display()), error))?;
        Ok(Self { group, limit, device })
    }

    /// The file to which a process writes its number to be limited.
    pub(crate) fn processes(&self) -> PathBuf {
        self.group.join("cgroup.procs")
    }

    /// Sets the limit of writes; `None` removes it.
    pub(crate) fn set(&self, rate: Option<Rate>) -> Result<(), ExperimentError> {
        let bytes = rate.map(|rate| rate.as_bytes_per_second().to_string());
        let (file, value) = match self.limit {
            Limit::Version1 => ("blkio.throttle.write_bps_device", bytes.unwrap_or_else(|| "0".to_owned())),
            Limit::Version2 => ("io.max", format!("wbps={}", bytes.as_deref().unwrap_or("max"))),
        };
        let file = self.group.join(file);
        fs::write(&file, format!("{} {value}", self.device))
            .map_err(|error| ExperimentError::io(format!("write {}", file.display()), error))
    }

    /// Stops all writes of the limited processes to the device.
    pub(crate) fn stall(&self) -> Result<(), ExperimentError> {
        self.set(Some(STALLED))
    }
}

/// The cgroup hierarchy that can limit writes, and the kind of its limit; `None` if there is none.
fn hierarchy(mounts: &str) -> Option<(PathBuf, Limit)> {
    let found = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (place, kind, options) = (PathBuf::from(words.next()?), words.next()?, words.next()?);
        match kind {
            "cgroup" if options.split(',').any(|option| option == "blkio") => Some((place, Limit::Version1)),
            // The groups below the top have the controllers that this file names.
            "cgroup2" => {
                let given = fs::read_to_string(place.join("cgroup.subtree_control")).unwrap_or_default();
                given.split_whitespace().any(|controller| controller == "io").then_some((place, Limit::Version2))
            }
            _ => None,
        }
    });
    found.into_iter().next()
}

/// The device of a file, whole where that is a partition of it: only whole devices have limits.
fn device(path: &Path) -> io::Result<String> {
    let number = fs::metadata(path)?.dev();
    let name = format!("{}:{}", major(number), minor(number));
    let place = fs::canonicalize(format!("/sys/dev/block/{name}"))?;
    if !place.join("partition").exists() {
        return Ok(name);
    }
    let whole = place.parent().unwrap_or(&place).join("dev");
    Ok(fs::read_to_string(whole)?.trim().to_owned())
}
