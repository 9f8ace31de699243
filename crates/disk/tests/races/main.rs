//! Races for every path call: while the call runs, another thread exchanges one component of its
//! path after the other, the last one included, for a symbolic link that leads out of the root.
//! Nothing outside may be read or changed.
//!
//! `ICDC_TEST_FLIPS` is the number of exchanges of each test.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod calls;
mod flipper;
mod plain;
#[path = "../seccomp/mod.rs"]
mod seccomp;
mod world;

use std::thread;

use crate::calls::{CALLS, Caller};
use crate::flipper::while_flipping;
use crate::world::World;

/// Exchanges of a test unless `ICDC_TEST_FLIPS` says otherwise.
const FLIPS: u64 = 40_000;
/// Exchanges for which every call is made at least once.
const FLIPS_PER_ROUND: u64 = 50;
/// Rounds after which a call that has not met both states of its path fails the test.
const PATIENCE: u64 = 100_000;

fn wanted_flips() -> u64 {
    std::env::var("ICDC_TEST_FLIPS").ok().map_or(FLIPS, |text| text.parse().unwrap())
}

/// Number of times that a call has been carried out, and that it has been refused.
#[derive(Clone, Copy, Default)]
struct Outcomes {
    done: u64,
    refused: u64,
}

/// Makes every call of a tree during the wanted number of exchanges.
fn every_call_stays_inside() {
    let world = World::new();
    let before = world.outside();
    let mut outcomes = [Outcomes::default(); CALLS.len()];
    let flips = while_flipping(&world, |flipper| {
        let mut caller = Caller::new(&world);
        let wanted = wanted_flips();
        let both = |outcomes: &[Outcomes]| outcomes.iter().all(|of| of.done > 0 && of.refused > 0);
        let mut rounds = 0;
        while flipper.flips() < wanted || rounds < wanted / FLIPS_PER_ROUND || !both(&outcomes) {
            for ((_, call), outcome) in CALLS.iter().zip(&mut outcomes) {
                match call(&mut caller) {
                    Ok(()) => outcome.done += 1,
                    Err(_) => outcome.refused += 1,
                }
            }
            rounds += 1;
            if rounds > PATIENCE {
                break;
            }
        }
        flipper.flips()
    });
    for ((name, _), Outcomes { done, refused }) in CALLS.iter().zip(outcomes) {
        eprintln!("{name}: {done} done, {refused} refused");
        assert!(done > 0 && refused > 0, "{name}: {done} done, {refused} refused: it could not race");
    }
    eprintln!("{flips} exchanges");
    assert!(flips >= wanted_flips(), "{flips} exchanges in {PATIENCE} rounds");
    world::assert_unchanged(&before, &world.outside());
}

#[test]
fn no_call_leaves_the_root() {
    every_call_stays_inside();
}

/// As on a kernel before 5.6, or in a container whose filter does not know the call.
#[test]
fn no_call_leaves_the_root_without_openat2() {
    // A filter holds for the thread that installs it, and for those that it starts.
    let thread = thread::spawn(|| {
        seccomp::forbid(libc::SYS_openat2 as u32, libc::ENOSYS);
        every_call_stays_inside();
    });
    assert!(thread.join().is_ok(), "the test above failed");
}

/// The control: the same exchanges lead calls by path out, every kind of call, and it is noticed.
#[test]
fn plain_calls_by_path_do_leave_it() {
    for (name, call) in plain::CALLS {
        let world = World::new();
        if name == "set xattr" && !world.has_xattrs() {
            eprintln!("skipped: the file system has no extended attributes");
            continue;
        }
        assert!(plain::escapes(&world, call), "{name} did not leave the root: it could not race");
    }
}
