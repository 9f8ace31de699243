//! Memory of the processes on hosts: the largest resident set (`VmHWM` of proc(5), without the page
//! cache) of any process, sampled several times a second. It only grows within a process, so the
//! last sample is its peak.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use icdc_packet::clock;
use icdc_units::{ByteCount, Span};

use crate::harness::error::ExperimentError;
use crate::harness::hosts::plain_host::PlainHost;

/// Interval at which the memory is sampled.
const STEP: Span = Span::from_millis(50);

/// Runs `work`; also returns the largest resident set on each host while it ran.
pub(crate) fn largest<T, const N: usize>(
    hosts: [&PlainHost; N],
    work: impl FnOnce() -> Result<T, ExperimentError>,
) -> Result<(T, [ByteCount; N]), ExperimentError> {
    let mut inodes = [0; N];
    for (inode, host) in inodes.iter_mut().zip(hosts) {
        *inode = host.inode()?;
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut largest = [ByteCount::ZERO; N];
            while !over.load(Ordering::Relaxed) {
                take_sample(&inodes, &mut largest);
                clock::sleep_until(clock::now() + STEP);
            }
            largest
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        let largest = watching.join().expect("watching does not panic");
        Ok((done?, largest))
    })
}

/// Takes a sample: raises `largest` to the peaks of the processes in the network namespaces
/// `inodes`.
fn take_sample(inodes: &[u64], largest: &mut [ByteCount]) {
    let Ok(entries) = fs::read_dir("/proc") else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let Ok(namespace) = fs::metadata(path.join("ns/net")) else { continue };
        let Some(host) = inodes.iter().position(|inode| *inode == namespace.ino()) else { continue };
        let status = fs::read_to_string(path.join("status")).unwrap_or_default();
        largest[host] = largest[host].max(peak(&status).unwrap_or_default());
    }
}

/// Peak of the resident set (`VmHWM`) in the text of /proc/PID/status; `None` if it is not there.
fn peak(status: &str) -> Option<ByteCount> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(ByteCount::new(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_in_kibibytes() {
        assert_eq!(peak("Name:\ta\nVmHWM:\t   1234 kB\nVmRSS:\t 7 kB\n"), Some(ByteCount::from_kib(1234)));
        assert_eq!(peak("Name:\ta kernel thread\n"), None);
    }
}
