//! The wire: the process that is the path between the two hosts of a lab.
//!
//! - It reads a `Request` (JSON) from standard input and builds that lab.
//! - It writes an `Answer` (JSON) to standard output: the record of the lab, or an error.
//! - From then on all its counters are in the [`Page`].
//! - It owns the lab: it makes the namespaces, and removes them when it is stopped.

mod awake;
mod engine;
mod lane;
pub mod listing;
pub(crate) mod page;
pub(crate) mod request;

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::mem;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use icdc_packet::{Geometry, Outlet, PacketError, Ring, clock, precedence};
use icdc_path::Direction;
use icdc_units::ByteCount;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::LabError;
use crate::heading::Heading;
use crate::namespaces::{Host, Namespaces};
use crate::process::Process;
use crate::record::LabRecord;
use crate::settings::{Mode, Settings};
use crate::{hosts, placement, registry, teardown};
use awake::Awake;
use engine::Pace;
use lane::Lane;
use listing::Listing;
use page::{Gauge, Global, LanePage, Page, Reserve};
use request::{Answer, Request};

/// Length of an Ethernet header, with room for one VLAN tag.
const ETHERNET_HEADER: u64 = 18;
/// Longest superpacket that the kernel makes by default (`GSO_LEGACY_MAX_SIZE`).
const LONGEST_SUPERPACKET: u64 = 65_536;
/// Space for a burst beside the packets in flight. A host that is not scheduled for 20 ms and then
/// does its work sends this much at 10 Gbit/s; the queue will refuse most of it, but that has to be
/// decided packet by packet.
const BURST: ByteCount = ByteCount::from_mib(24);
/// Interval at which the devices' own counters and the traffic are read.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Builds the lab and runs its path until a signal comes. To be called by a process made for it,
/// before any other thread is started.
///
/// # Errors
/// See [`LabError`].
pub fn main() -> Result<(), LabError> {
    let request = read_request()?;
    match build(&request) {
        Ok(wire) => wire.run(),
        Err(error) => {
            answer(&Answer::Failed(error.to_string()));
            Err(error)
        }
    }
}

/// Reads from standard input which lab is to be built.
fn read_request() -> Result<Request, LabError> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map_err(|error| LabError::io("read the request", error))?;
    serde_json::from_str(&text).map_err(|error| LabError::io("read the request", error.into()))
}

/// Writes the answer to standard output as a line of JSON; ignores that the requesting process is
/// gone.
fn answer(answer: &Answer) {
    let text = serde_json::to_string(answer).expect("plain data");
    // The requesting process may be gone; the lab is then taken down by its name.
    let _ = writeln!(io::stdout(), "{text}");
}

/// A lab that this process has built, and whose path it is.
struct Wire {
    lanes: [Lane; 2],
    page: Arc<Page>,
    devices: Devices,
    settings: Settings,
    processors: Vec<usize>,
    reserve: Reserve,
    owner: Option<Process>,
    directory: PathBuf,
    /// The lab's namespaces, which are removed when the wire ends.
    _namespaces: Namespaces,
}

/// Builds the lab of a request (namespaces, hosts, page, lanes), saves its record, and answers that
/// it is ready.
fn build(request: &Request) -> Result<Wire, LabError> {
    // A terminal that closes is nothing to the lab.
    let _ = rustix::process::setsid();
    let settings = &request.settings;
    let [forward, backward] = [Direction::new(&settings.forward)?, Direction::new(&settings.backward)?];
    let namespaces = Namespaces::create(&request.name, &request.directory, request.user_namespace)?;
    let processors = placement::processors();
    hosts::configure(&namespaces, settings, &wire_processors(&processors))?;
    let (page, reserve) = Page::create(&request.directory.join(registry::PAGE), clock::now())
        .map_err(|error| LabError::io("make the page", error))?;
    let page = Arc::new(page);
    let devices = Devices::open(&namespaces)?;
    let listing = match settings.listed {
        0 => None,
        limit => Some(
            Listing::create(&request.directory.join(registry::FRAMES), limit)
                .map_err(|error| LabError::io("make the list of frames", error))?,
        ),
    };
    let lanes = namespaces.inside(Host::Wire, || -> Result<_, PacketError> {
        let lane = |heading, from, to, direction, listing| -> Result<_, PacketError> {
            let ring = Ring::open(from, geometry(settings, heading))?;
            Ok(Lane::new(ring, Outlet::open(to)?, direction, LanePage::new(page.clone(), heading), listing))
        };
        Ok([
            lane(Heading::Forward, hosts::PORT_A, hosts::PORT_B, forward, listing)?,
            lane(Heading::Backward, hosts::PORT_B, hosts::PORT_A, backward, None)?,
        ])
    })??;
    let kept_free = if settings.share_processors { Vec::new() } else { wire_processors(&processors) };
    let record = record(request, &namespaces, kept_free)?;
    record.save(&request.directory)?;
    answer(&Answer::Ready(Box::new(record)));
    Ok(Wire {
        lanes,
        page,
        devices,
        settings: settings.clone(),
        processors,
        reserve,
        owner: request.owner,
        directory: request.directory.clone(),
        _namespaces: namespaces,
    })
}

/// The record of the lab for other processes.
fn record(request: &Request, namespaces: &Namespaces, wire_processors: Vec<usize>) -> Result<LabRecord, LabError> {
    let place = |host| Ok::<_, LabError>((namespaces.path(host), namespaces.inode(host)?));
    Ok(LabRecord {
        name: request.name.clone(),
        settings: request.settings.clone(),
        wire: Process::this(),
        user_namespace: request.user_namespace,
        namespaces: [place(Host::A)?, place(Host::B)?, place(Host::Wire)?],
        wire_processors,
    })
}

/// Geometry of the ring of one direction: packets in transit, and a quarter of that or [`BURST`]
/// for the ring's own overhead and for arrivals during a stall.
fn geometry(settings: &Settings, heading: Heading) -> Geometry {
    let direction = settings.direction(heading);
    let longest = match settings.mode {
        Mode::Exact => direction.mtu.as_u64(),
        Mode::Fast => direction.mtu.as_u64().max(LONGEST_SUPERPACKET),
    };
    let memory = direction.in_flight() + direction.in_flight().scaled(1, 4).max(BURST);
    Geometry::within(memory, ByteCount::new(longest + ETHERNET_HEADER))
}

/// Memory of the rings of a lab.
#[must_use]
pub fn memory(settings: &Settings) -> ByteCount {
    Heading::BOTH.map(|heading| geometry(settings, heading).memory()).into_iter().sum()
}

/// Processors for the wire: the last one, or the last two where there are enough; none on a machine
/// with one.
fn wire_processors(processors: &[usize]) -> Vec<usize> {
    let count = match processors.len() {
        0 | 1 => 0,
        2 | 3 => 1,
        _ => 2,
    };
    last(processors, count).to_vec()
}

/// The last `count` processors, or all if there are fewer.
fn last(processors: &[usize], count: usize) -> &[usize] {
    &processors[processors.len().saturating_sub(count)..]
}

/// Sum of a gauge over both directions.
fn sum(page: &Page, gauge: Gauge) -> u64 {
    Heading::BOTH.map(|heading| page.gauge(heading, gauge)).iter().sum()
}

impl Wire {
    /// Moves the path's packets until a signal comes or the lab's owner has ended; in the latter
    /// case it also takes the lab down.
    fn run(mut self) -> Result<(), LabError> {
        let stop = Arc::new(AtomicBool::new(false));
        let no_signals = |error| LabError::io("handle signals", error);
        let (stopped, stopping) = UnixStream::pair().map_err(no_signals)?;
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            // In this order: the flag is set when the loop below wakes up.
            signal_hook::flag::register(signal, stop.clone()).map_err(no_signals)?;
            let stopping = stopping.try_clone().map_err(no_signals)?;
            signal_hook::low_level::pipe::register(signal, stopping).map_err(no_signals)?;
        }
        self.page.set_global(Global::Started, clock::now().as_nanos());
        let [forward, backward] = &mut self.lanes;
        let places = wire_processors(&self.processors);
        let shortest = self.settings.forward.delay.min(self.settings.backward.delay);
        let pace = Pace::new(self.settings.mode, shortest);
        let (page, stop, mut both) = (&*self.page, &*stop, [forward, backward]);
        let (switch, mut offered, mut is_last) = (awake::Switch::default(), 0, false);
        let owner = self.owner;
        let result = thread::scope(|scope| {
            let kept = if self.settings.let_sleep { 0 } else { 2 };
            let awake = Awake::new(scope, last(&self.processors, kept), &switch);
            let mut running = Vec::new();
            let groups = if places.len() > 1 { 1 } else { 2 };
            for (index, lanes) in both.chunks_mut(groups).enumerate() {
                let place = places.get(index).copied();
                let stopping = &stopping;
                running.push(scope.spawn(move || {
                    let _last = StopsAll(stop, stopping);
                    run_lanes(lanes, place, pace, page, stop)
                }));
            }
            while !stop.load(Ordering::Relaxed) {
                let now = clock::now();
                page.set_global(Global::Heartbeat, now.as_nanos());
                if let Err(error) = self.reserve.ensure(now) {
                    stop.store(true, Ordering::Relaxed);
                    return Err(LabError::io("keep the series of the path", error));
                }
                page.set_global(Global::DeviceDrops, self.devices.drops());
                let before = mem::replace(&mut offered, sum(page, Gauge::Offered));
                if !is_last && page.global(Global::Realtime) == 1 {
                    Awake::be_last();
                    is_last = true;
                }
                if is_orphan(owner) {
                    stop.store(true, Ordering::Relaxed);
                }
                awake.set(offered != before || sum(page, Gauge::HeldPackets) > 0);
                let _ = poll(&mut [PollFd::new(&stopped, PollFlags::IN)], Some(&POLL_INTERVAL));
            }
            let lanes = running.into_iter().try_for_each(|lanes| lanes.join().expect("a lane does not panic"));
            lanes.map_err(LabError::from)
        });
        if is_orphan(owner) {
            teardown::clear(&self.directory)?;
        }
        result
    }
}

/// Whether the process that owns the lab is gone; false if nothing owns it.
fn is_orphan(owner: Option<Process>) -> bool {
    owner.is_some_and(|owner| !owner.is_alive())
}

/// Stops all threads when it is dropped, also if a lane panics.
struct StopsAll<'a>(&'a AtomicBool, &'a UnixStream);

impl Drop for StopsAll<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        // It is never read: where there is no room, it is readable already.
        let _ = (&mut &*self.1).write(&[0]);
    }
}

/// Body of a thread that moves the packets of `lanes` until `stop` is set: takes real-time
/// priority, and stays on the processor `place` if there is one.
fn run_lanes(
    lanes: &mut [&mut Lane],
    place: Option<usize>,
    pace: Pace,
    page: &Page,
    stop: &AtomicBool,
) -> Result<(), PacketError> {
    if let Some(cpu) = place
        && let Err(error) = placement::stay_on(&[cpu])
    {
        tracing::warn!("the wire is not kept on processor {cpu}: {error}");
    }
    match precedence::raise_priority(placement::PRIORITY) {
        Ok(()) => page.set_global(Global::Realtime, 1),
        Err(error) => tracing::warn!("the wire has no real-time priority: {error}"),
    }
    engine::run(lanes, pace, stop)
}

/// Counters of the devices on both ends of both cables: packets lost there are lost by the machine.
struct Devices {
    files: Vec<File>,
    before: u64,
}

impl Devices {
    /// Opens the devices' counters in the three namespaces; earlier drops do not count.
    fn open(namespaces: &Namespaces) -> Result<Self, LabError> {
        let open = || File::open("/proc/thread-self/net/dev");
        let mut files = Vec::new();
        for host in [Host::A, Host::B, Host::Wire] {
            files.push(namespaces.inside(host, open)?.map_err(|error| LabError::io("open /proc/net/dev", error))?);
        }
        let mut devices = Self { files, before: 0 };
        devices.before = devices.drops();
        Ok(devices)
    }

    /// Frames dropped since the lab began.
    fn drops(&mut self) -> u64 {
        let mut total = 0;
        for file in &mut self.files {
            let mut text = String::new();
            if file.rewind().and_then(|()| file.read_to_string(&mut text)).is_ok() {
                total += text.lines().filter_map(transmit_drops).sum::<u64>();
            }
        }
        total.saturating_sub(self.before)
    }
}

/// Number of packets that a device dropped in transmission, by its line of `/proc/net/dev` (the
/// twelfth number, proc(5)); `None` for another line.
fn transmit_drops(line: &str) -> Option<u64> {
    let (_, numbers) = line.split_once(':')?;
    numbers.split_whitespace().nth(11)?.parse().ok()
}
