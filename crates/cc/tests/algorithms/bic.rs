use crate::path::{Path, assert_close};

/// The model of c/bic.c: packets per round trip.
fn increase(max: f64, window: f64) -> f64 {
    if window < 14.0 {
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
    for stretch in [1, 40] {
        for max in [20_u32, 100, 1000, 20_000] {
            let mut path = Path::new("bic", &[], max);
            path.stretch = stretch;
            let kept = path.lose();
            assert_close(f64::from(kept), f64::from(max) * 819.0 / 1024.0, "window after the loss");
            let mut model = f64::from(kept);
            for round in 0..400 {
                for _ in 0..path.window() {
                    model += increase(f64::from(max), model.floor()) / model.floor();
                }
                path.round_trip();
                let what = format!("round trip {round} after a loss at {max} packets, acks of {stretch}");
                // In the plateau a packet more or less shifts the growth by some round trips.
                let allowed = (0.02 * model).max(2.0);
                assert!((f64::from(path.window()) - model).abs() <= allowed, "{what}: {} not {model}", path.window());
            }
        }
    }
}

#[test]
fn growth_is_limited_far_from_the_maximum_and_slow_close_to_it() {
    let mut path = Path::new("bic", &[], 20_000);
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
    let mut path = Path::new("bic", &[], 10_000);
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
        for _ in 0..10 {
            path.round_trip();
            path.connection.socket.snd_cwnd = path.window().min(window + 8);
        }
        path.window() - window
    };
    // The maximum is 9000 (1 + 0.8)/2 = 8099: there it is slow with fast convergence, and fast without.
    assert_eq!(growth_at(&[], 8099), 2);
    assert_eq!(growth_at(&[("fast_convergence", 0)], 8099), 8);
}
