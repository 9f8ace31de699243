//! Whatever happens, the window stays between one packet and its clamp, and thresholds are two
//! packets at least.

use icdc_cc::all;
use icdc_cc::native::{CongestionState, RateSample, WindowEvent};
use proptest::prelude::*;

use crate::path::Path;

#[derive(Clone, Debug)]
enum Step {
    Acknowledge { packets: u32, rtt_us: u32, limited: bool },
    Wait { us: u64 },
    Lose,
    TimeOut,
    Undo,
    Idle { us: u64, restart: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (prop_oneof![1_u32..100, 1_u32..5_000_000, Just(u32::MAX / 2)], prop_oneof![Just(0_u32), 1_u32..2_000_000, Just(i32::MAX as u32)], any::<bool>())
            .prop_map(|(packets, rtt_us, limited)| Step::Acknowledge { packets, rtt_us, limited }),
        3 => prop_oneof![0_u64..200_000, 0_u64..100_000_000_000].prop_map(|us| Step::Wait { us }),
        2 => Just(Step::Lose),
        1 => Just(Step::TimeOut),
        1 => Just(Step::Undo),
        1 => (0_u64..10_000_000_000, any::<bool>()).prop_map(|(us, restart)| Step::Idle { us, restart }),
    ]
}

/// Gives the threshold after a loss.
fn take(path: &mut Path, step: &Step) -> Option<u32> {
    match *step {
        Step::Acknowledge { packets, rtt_us, limited } => {
            path.connection.socket.is_cwnd_limited = u32::from(limited);
            path.rtt_us = u64::from(rtt_us);
            path.acknowledge(packets);
            if path.connection.controls() {
                let delivered = packets as i32;
                path.connection.cong_control(&RateSample {
                    delivered,
                    prior_delivered: path.connection.socket.delivered.wrapping_sub(packets),
                    interval_us: i64::from(rtt_us),
                    rtt_us: i64::from(rtt_us),
                    acked_sacked: packets,
                    prior_in_flight: packets,
                    ..RateSample::default()
                });
            }
        }
        Step::Wait { us } => path.connection.socket.tcp_mstamp += us,
        Step::Lose => return Some(path.lose()),
        Step::TimeOut => {
            path.connection.socket.prior_cwnd = path.window();
            let threshold = path.connection.ssthresh();
            path.connection.event(WindowEvent::Timeout);
            path.connection.set_state(CongestionState::Loss);
            let socket = &mut path.connection.socket;
            (socket.snd_ssthresh, socket.snd_cwnd, socket.snd_cwnd_cnt) = (threshold, 1, 0);
            return Some(threshold);
        }
        Step::Undo => path.connection.socket.snd_cwnd = path.connection.undo_cwnd(),
        Step::Idle { us, restart } => {
            path.connection.socket.lsndtime = (path.now_us() / 1000) as u32;
            path.connection.socket.tcp_mstamp += us;
            if restart {
                path.connection.event(WindowEvent::Restart);
            }
            path.connection.event(WindowEvent::TransmitStart);
        }
    }
    None
}

/// Settings at the edges of their ranges, by the bits of `choice`.
fn settings(parameters: &[icdc_cc::Parameter], choice: u64) -> Vec<(&'static str, i64)> {
    parameters
        .iter()
        .enumerate()
        .map(|(index, parameter)| {
            let value = match choice >> (2 * index) & 3 {
                0 => parameter.lowest,
                1 => parameter.highest,
                _ => parameter.initial,
            };
            (parameter.name, value)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn the_window_keeps_its_bounds(
        steps in prop::collection::vec(step(), 1..120),
        window in 1_u32..5_000_000,
        clamp in prop_oneof![Just(u32::MAX), 5_000_000_u32..20_000_000],
        choice in any::<u64>(),
    ) {
        for algorithm in all() {
            let mut path = Path::new(algorithm.name, &settings(&algorithm.parameters(), choice), window);
            path.connection.socket.snd_cwnd_clamp = clamp;
            for step in &steps {
                let threshold = take(&mut path, step);
                let socket = path.connection.socket;
                prop_assert!((1..=clamp).contains(&socket.snd_cwnd), "{}: {step:?} made {}", algorithm.name, socket.snd_cwnd);
                prop_assert!(threshold.is_none_or(|threshold| threshold >= 2) || path.connection.controls(), "{}", algorithm.name);
                prop_assert!(socket.snd_ssthresh >= 1, "{}", algorithm.name);
            }
        }
    }
}
