//! Worlds that are run.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use icdc_session::sender::Window;

use crate::environment::{DiskFaults, Side};
use crate::plan::{Incident, Mode, Plan, When};
use crate::random::Random;
use crate::source::Source;
use crate::world::{Report, World};

/// Seeds that every run of the tests covers.
const SEEDS: Range<u64> = 0..20_000;
/// Worlds that may fail before no more are looked at.
const ENOUGH: usize = 20;

fn world(seed: u64, traced: bool) -> Report {
    let mut random = Random::new(seed);
    let plan = Plan::any(&mut random);
    World::new(plan, random, traced).run()
}

/// Runs a world again and tells what led to its violation.
fn explain(seed: u64) -> String {
    let Report { violation, trace, .. } = world(seed, true);
    let violation = violation.unwrap_or_else(|| "went well when it was run again".into());
    format!("{}\nICDC_SEED={seed}: {violation}", trace.join("\n"))
}

fn seeds() -> Range<u64> {
    if let Ok(seed) = std::env::var("ICDC_SEED") {
        let seed: u64 = seed.parse().expect("ICDC_SEED is a number");
        return seed..seed + 1;
    }
    match std::env::var("ICDC_SEEDS") {
        Ok(range) => {
            let (first, end) = range.split_once("..").expect("ICDC_SEEDS is a range a..b");
            first.parse().expect("ICDC_SEEDS begins with a number")..end.parse().expect("ICDC_SEEDS ends with a number")
        }
        Err(_) => SEEDS,
    }
}

/// Runs the world of every number, on all processors; gives those that fail, with what they violate.
fn failures(numbers: Range<u64>, run: impl Fn(u64) -> Option<String> + Sync) -> Vec<(u64, String)> {
    let next = AtomicU64::new(numbers.start);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let runner = || {
        let mut failed = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end || failed.len() >= ENOUGH {
                return failed;
            }
            let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(number)));
            let violation = found.unwrap_or_else(|_| Some("a panic".into()));
            failed.extend(violation.map(|violation| (number, violation)));
        }
    };
    let mut failed: Vec<(u64, String)> = std::thread::scope(|scope| {
        let runners: Vec<_> = (0..threads).map(|_| scope.spawn(runner)).collect();
        runners.into_iter().flat_map(|runner| runner.join().expect("panics are caught")).collect()
    });
    failed.sort();
    failed
}

#[test]
fn any_world_comes_to_a_good_end() {
    let failed = failures(seeds(), |seed| world(seed, false).violation);
    let Some((seed, _)) = failed.first() else { return };
    for (seed, violation) in &failed {
        eprintln!("seed {seed}: {violation}");
    }
    panic!("{}", explain(*seed));
}

/// A small world in which one thing befalls.
#[derive(Clone, Copy, Debug)]
struct Small {
    source: fn() -> Source,
    mode: Mode,
    streams: usize,
    /// A mirror, whose destination has what the source has not.
    deletes: bool,
    incident: Option<(When, Incident)>,
}

impl Small {
    fn run(self, traced: bool) -> Report {
        let mut plan = Plan::calm((self.source)());
        plan.mode = self.mode;
        plan.streams = self.streams;
        (plan.deletes, plan.destination_exists) = (self.deletes, self.deletes);
        plan.incidents = self.incident.into_iter().collect();
        World::new(plan, Random::new(7), traced).run()
    }
}

/// Has `befall` happen to every kind of small world, each at every count below that of the calm one by `end`.
fn exhaust(befall: &[Incident], when: fn(u64) -> When, end: fn(&Report) -> u64) {
    let sources: [fn() -> Source; 3] = [Source::one_of_each, Source::single_file, Source::stream];
    for source in sources {
        let ends = [(Mode::Push, 1), (Mode::Pull, 1), (Mode::Push, 3), (Mode::Pull, 3)];
        for ((mode, streams), deletes) in ends.into_iter().flat_map(|end| [(end, false), (end, true)]) {
            let calm = Small { source, mode, streams, deletes, incident: None };
            let report = calm.run(false);
            assert_eq!(report.violation, None, "{calm:?}");
            assert_eq!(report.sessions, 1, "{calm:?}");
            for incident in befall {
                let disturbed = |count| Small { incident: Some((when(count), *incident)), ..calm };
                let failed = failures(1..end(&report) + 1, |count| disturbed(count).run(false).violation);
                if let Some((count, violation)) = failed.first() {
                    let trace = disturbed(*count).run(true).trace;
                    panic!("{}\n{:?}: {violation}", trace.join("\n"), disturbed(*count));
                }
            }
        }
    }
}

const BEFALL: [Incident; 6] = [
    Incident::Kill(Side::Sender),
    Incident::Kill(Side::Receiver),
    Incident::PowerCut,
    Incident::Cut { number: 0 },
    Incident::Cut { number: 1 },
    Incident::Interrupt,
];

#[test]
fn whatever_befalls_at_whichever_message_the_copy_is_completed() {
    exhaust(&BEFALL, |count| When::Frames { session: 0, count }, |calm| calm.frames);
}

#[test]
fn whatever_befalls_at_whichever_step_of_whichever_thread_the_copy_is_completed() {
    exhaust(&BEFALL, When::Events, |calm| calm.events);
}

#[test]
fn a_scan_that_is_faster_than_everything_else_fills_the_window_and_no_more() {
    let faults = DiskFaults { stall: 300, ..DiskFaults::default() };
    let most = Window::default().items;
    let plan = Plan { faults, ..Plan::calm(Source::wide(most as u32 + 6000)) };
    let report = World::new(plan, Random::new(7), false).run();
    assert_eq!(report.violation, None);
    assert_eq!(report.most_announced, most);
}
