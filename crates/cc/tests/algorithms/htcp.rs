use icdc_cc::native::WindowEvent;

use crate::path::{Path, SECOND_US, assert_close};

/// Growth and measurements as the draft has them.
const DRAFT: [(&str, i64); 1] = [("draft", 1)];

/// Packets per round trip, `seconds` after a loss with backoff to `beta`.
fn alpha(seconds: f64, beta: f64) -> f64 {
    let beyond = (seconds - 1.0).max(0.0);
    2.0 * (1.0 - beta) * (1.0 + 10.0 * beyond + (beyond / 2.0).powi(2))
}

/// What alpha packets per round trip add in one: the window grows meanwhile, and with it what a
/// packet needs.
fn grown(window: f64, alpha: f64) -> f64 {
    (window * window + 2.0 * alpha * window).sqrt() - window
}

/// Growth over one round trip of 100 ms, where RTT scaling does nothing.
fn growth_after(settings: &[(&str, i64)], seconds: f64, stretch: u32) -> f64 {
    let mut path = Path::new("htcp", settings, 40_000);
    path.round_trip();
    let kept = path.lose();
    path.stretch = stretch;
    path.connection.socket.tcp_mstamp += (seconds * SECOND_US as f64) as u64 - path.rtt_us * 3 / 2;
    path.round_trip();
    f64::from(path.window() - kept)
}

#[test]
fn grows_with_the_time_since_the_loss() {
    for stretch in [1, 40] {
        for seconds in [1.5, 2.0, 5.0, 10.0, 30.0, 100.0] {
            let expected = grown(20_000.0, alpha(seconds, 0.5));
            assert_close(growth_after(&DRAFT, seconds, stretch), expected, &format!("{seconds} s after the loss"));
        }
    }
}

#[test]
fn the_time_as_reno_is_a_parameter() {
    let mut path = Path::new("htcp", &[("low_speed_ms", 20_000), ("draft", 1)], 2000);
    let kept = path.lose();
    for _ in 0..100 {
        path.round_trip();
    }
    assert_close(f64::from(path.window() - kept), 100.0, "10 s of 20 s");
}

/// Losses at the same rate, with the round-trip time between `least` and `most`.
fn kept_share(settings: &[(&str, i64)], least_ms: u64, most_ms: u64) -> f64 {
    let mut path = Path::new("htcp", settings, 10_000);
    path.stretch = 10;
    let mut share = 0.0;
    for _ in 0..4 {
        path.connection.socket.snd_cwnd = 10_000;
        path.rtt_us = least_ms * 1000;
        path.round_trip();
        path.rtt_us = most_ms * 1000;
        path.round_trip();
        path.round_trip();
        path.connection.socket.snd_cwnd = 10_000;
        share = f64::from(path.lose()) / 10_000.0;
    }
    share
}

#[test]
fn keeps_as_much_as_the_queue_allows() {
    for (least, most, expected) in [(100, 100, 0.8), (100, 140, 100.0 / 140.0), (100, 160, 0.625), (100, 300, 0.5)] {
        let found = kept_share(&DRAFT, least, most);
        assert!((found - expected).abs() < 0.01, "{least} to {most} ms: {found}, expected {expected}");
    }
    let found = kept_share(&[("beta_highest", 600), ("draft", 1)], 100, 100);
    assert!((found - 0.6).abs() < 0.01, "limited to 0.6: {found}");
}

#[test]
fn halves_when_the_rate_has_changed() {
    let after_change = |settings: &[(&str, i64)]| {
        let mut path = Path::new("htcp", settings, 10_000);
        for window in [10_000, 10_000, 14_000] {
            path.connection.socket.snd_cwnd = window;
            path.round_trip();
            path.round_trip();
            path.connection.socket.snd_cwnd = window;
            path.lose();
        }
        f64::from(path.window()) / 14_000.0
    };
    assert!((after_change(&DRAFT) - 0.5).abs() < 0.01);
    assert!((after_change(&[("bandwidth_switch", 0), ("draft", 1)]) - 0.8).abs() < 0.01);
}

#[test]
fn round_trip_scaling_gives_equal_shares() {
    let growth = |settings: &[(&str, i64)], rtt_ms: u64| {
        let mut path = Path::new("htcp", settings, 40_000);
        path.rtt_us = rtt_ms * 1000;
        path.round_trip();
        let kept = path.lose();
        path.connection.socket.tcp_mstamp += 5 * SECOND_US - path.rtt_us * 3 / 2;
        path.round_trip();
        f64::from(path.window() - kept)
    };
    assert_close(growth(&DRAFT, 200), 2.0 * growth(&DRAFT, 100), "200 ms");
    assert_close(growth(&DRAFT, 50), 0.5 * growth(&DRAFT, 100), "50 ms");
    assert_close(growth(&DRAFT, 600), 2.0 * growth(&DRAFT, 100), "limited to twice");
    assert_close(growth(&[("rtt_scaling", 0), ("draft", 1)], 600), growth(&DRAFT, 100), "without scaling");
}

#[test]
fn time_without_data_does_not_count() {
    for (event, expected) in [(WindowEvent::TransmitStart, 3.0), (WindowEvent::Restart, 0.1)] {
        let mut path = Path::new("htcp", &DRAFT, 40_000);
        path.round_trip();
        path.lose();
        path.connection.socket.tcp_mstamp += 3 * SECOND_US - 2 * path.rtt_us;
        path.acknowledge(1);
        path.connection.socket.tcp_mstamp += 3600 * SECOND_US;
        path.connection.event(event);
        let before = path.window();
        path.round_trip();
        assert_close(f64::from(path.window() - before), alpha(expected, 0.5), &format!("{event:?}"));
    }
}

#[test]
fn a_reduction_taken_back_leaves_the_time_since_the_loss() {
    let mut path = Path::new("htcp", &DRAFT, 40_000);
    path.lose();
    path.connection.socket.tcp_mstamp += 10 * SECOND_US;
    path.lose();
    path.connection.socket.snd_cwnd = path.connection.undo_cwnd();
    let before = path.window();
    path.round_trip();
    assert_close(f64::from(path.window() - before), alpha(10.25, 0.5), "10 s after the first loss");
}

/// In Linux the window grows by a packet when what was acknowledged since, times alpha, is a window;
/// the acknowledgement that finds this counts for nothing, and only then alpha is computed anew.
#[test]
fn in_linux_growth_goes_by_whole_packets() {
    for (stretch, seconds) in [(1, 3.0), (2, 3.0), (2, 10.0), (16, 10.0)] {
        let mut path = Path::new("htcp", &[], 4000);
        path.lose();
        path.stretch = stretch;
        path.connection.socket.tcp_mstamp += (seconds * SECOND_US as f64) as u64;
        for _ in 0..4 {
            path.round_trip();
        }
        let (before, begin) = (path.window(), path.now_us());
        path.round_trip();
        // 2 s of 100 ms round trips before, and half a round trip, after the recovery ended.
        let alpha = alpha(seconds + 0.1 * 4.5, 0.5).floor();
        let needed = (f64::from(before) / alpha / f64::from(stretch)).ceil() + 1.0;
        let expected = f64::from(before) / f64::from(stretch) / needed;
        let found = f64::from(path.window() - before);
        assert!(
            (found - expected).abs() <= 0.06 * expected + 1.0,
            "acks of {stretch}, {seconds} s: {found}, not {expected}"
        );
        assert_eq!(path.now_us() - begin, path.rtt_us);
    }
}

#[test]
fn in_linux_the_share_kept_follows_the_queue_from_the_third_loss_on() {
    let mut path = Path::new("htcp", &[], 10_000);
    path.stretch = 10;
    let mut kept = Vec::new();
    for _ in 0..4 {
        path.connection.socket.snd_cwnd = 10_000;
        path.rtt_us = 100_000;
        (0..6).for_each(|_| path.round_trip());
        path.rtt_us = 115_000;
        path.connection.socket.snd_cwnd = 10_000;
        (0..6).for_each(|_| path.round_trip());
        path.connection.socket.snd_cwnd = 10_000;
        kept.push(f64::from(path.lose()) / 10_000.0);
    }
    let near = |found: f64, expected: f64| (found - expected).abs() < 0.01;
    assert!(near(kept[0], 0.5) && near(kept[1], 0.5), "{kept:?}");
    // Limited to 0.8: 102 of 128.
    assert!(near(kept[2], 0.797) && near(kept[3], 0.797), "{kept:?}");
    let short = |path: &mut Path| {
        path.rtt_us = 9_000;
        path.round_trip();
        path.connection.socket.snd_cwnd = 10_000;
        f64::from(path.lose()) / 10_000.0
    };
    assert!(near(short(&mut path), 0.5), "a path of 9 ms");
}
