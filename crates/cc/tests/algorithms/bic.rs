use crate::path::{Path, assert_close};

/// Growth as the paper counts.
const PAPER: [(&str, i64); 1] = [("ack_ratio", 0)];

/// The model of c/bic.c: packets per round trip.
fn increase(max: f64, window: f64) -> f64 {
    if window <= 14.0 {
        1.0
    } else if window < max {
        ((max - window) / 4.0).clamp(0.2, 16.0)
    } else if window < max + 4.0 {
        0.2
    } else {
        ((window - max) / 3.0).clamp(0.2, 16.0)
    }
}

#[test]
fn searches_for_the_last_maximum_then_probes() {
    // Not below two acknowledgements per window: each then moves the window by much of the way.
    for (stretch, maxima) in [(1, &[20_u32, 100, 1000, 20_000][..]), (40, &[100, 1000, 20_000])] {
        for &max in maxima {
            let mut path = Path::new("bic", &PAPER, max);
            path.stretch = stretch;
            let kept = path.lose();
            assert_close(f64::from(kept), f64::from(max) * 819.0 / 1024.0, "window after the loss");
            let mut model = f64::from(kept);
            for round in 0..400 {
                let mut left = path.window();
                while left > 0 {
                    let acked = left.min(stretch);
                    model += f64::from(acked) * increase(f64::from(max), model.floor()) / model.floor();
                    left -= acked;
                }
                path.round_trip();
                let what = format!("round trip {round} after a loss at {max} packets, acks of {stretch}");
                // Beyond the maximum a packet one round trip late is 16 packets later on.
                let allowed = (0.02 * model).max(1.0);
                assert!((f64::from(path.window()) - model).abs() <= allowed, "{what}: {} not {model}", path.window());
            }
        }
    }
}

#[test]
fn growth_is_limited_far_from_the_maximum_and_slow_close_to_it() {
    let mut path = Path::new("bic", &PAPER, 20_000);
    let kept = path.lose();
    path.round_trip();
    assert_close(f64::from(path.window() - kept), 16.0, "far below");
    path.connection.socket.snd_cwnd = 20_000;
    for _ in 0..20 {
        path.round_trip();
    }
    assert_close(f64::from(path.window()), 20_004.0, "at the maximum, 4 packets in 20 round trips");
}

#[test]
fn without_a_loss_it_grows_by_a_twentieth() {
    let mut path = Path::new("bic", &PAPER, 10_000);
    path.round_trip();
    assert_close(f64::from(path.window()), 10_000.0 * 1.05, "first round trip");
}

#[test]
fn fast_convergence_remembers_less_than_the_window() {
    let growth_at = |settings: &[(&str, i64)], window: u32| {
        let mut path = Path::new("bic", settings, 10_000);
        path.lose();
        path.connection.socket.snd_cwnd = 9000;
        path.lose();
        path.connection.socket.snd_cwnd = window;
        for _ in 0..12 {
            path.round_trip();
            path.connection.socket.snd_cwnd = path.window().min(window + 8);
        }
        path.window() - window
    };
    // The maximum is 9000 (1 + 0.8)/2 = 8099: there it is slow with fast convergence, and fast
    // without.
    assert_eq!(growth_at(&PAPER, 8099), 2);
    assert_eq!(growth_at(&[("fast_convergence", 0), ("ack_ratio", 0)], 8099), 8);
}

/// The average of packets per acknowledgement begins at two, and stops as soon as it is right to a
/// whole packet: at 31 sixteenths if each is acknowledged.
#[test]
fn in_linux_growth_is_multiplied_by_the_packets_of_an_acknowledgement() {
    for (stretch, ratio) in [(1, 31.0 / 16.0), (2, 2.0), (16, 16.0)] {
        let mut path = Path::new("bic", &[], 20_000);
        path.stretch = stretch;
        path.lose();
        for _ in 0..3 {
            path.round_trip();
        }
        let before = path.window();
        path.round_trip();
        assert_close(f64::from(path.window() - before), 16.0 * ratio, &format!("acks of {stretch}"));
    }
}

#[test]
fn in_linux_the_search_goes_by_whole_packets() {
    let mut path = Path::new("bic", &[], 1000);
    path.lose();
    for (missing, expected) in [(12_u32, 3.0), (9, 2.0), (7, 0.2), (1, 0.2)] {
        let window = 1000 - missing;
        path.connection.socket.snd_cwnd = window;
        // What was counted for another window.
        path.acknowledge(1);
        (path.connection.socket.snd_cwnd, path.connection.socket.snd_cwnd_cnt) = (window, 0);
        let acknowledged = (1..).find(|_| {
            path.acknowledge(1);
            path.window() > window
        });
        let found = f64::from(window) / f64::from(acknowledged.unwrap_or(0)) / (31.0 / 16.0);
        assert!((found - expected).abs() < 0.05 * expected, "{missing} packets below: {found}");
    }
}
