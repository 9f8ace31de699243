//! A flow over a bottleneck whose queue CoDel keeps short.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use icdc_path::{Settings, codel};
use icdc_sim::Simulation;
use icdc_units::Span;

use support::{path, watched};

#[test]
fn codel_keeps_the_queue_short_and_the_path_nearly_full() {
    // 100 Mbit/s, 40 ms, a queue of 400 ms.
    let simulation = path(100, Span::from_millis(40), 3250, 60);
    let kept = Settings { codel: Some(codel::Parameters::default()), ..simulation.forward.clone() };
    let kept = Simulation { forward: kept, ..simulation.clone() };
    let [(alone, long), (kept, short)] = [simulation, kept].map(|simulation| watched(&simulation));
    let wait = |diary: &support::Diary| {
        let late: Vec<u64> = diary.states.iter().skip(20_000).map(|(_, _, state)| state.rtt.as_millis() - 40).collect();
        late.iter().sum::<u64>() / late.len() as u64
    };
    assert!(wait(&long) > 100, "{} ms without CoDel", wait(&long));
    assert!(wait(&short) < 15, "{} ms with CoDel", wait(&short));
    let share = kept.goodput().as_bits_per_second() as f64 / alone.goodput().as_bits_per_second() as f64;
    assert!(share > 0.8, "{share}");
}
