use icdc_cc::native::WindowEvent;

use crate::path::{Path, SECOND_US};

/// RFC 9438 with the kernel's constants.
const C: f64 = 410.0 / 1024.0;
const BETA: f64 = 717.0 / 1024.0;

#[test]
fn follows_the_cubic() {
    for (max, stretch) in [(2000_u32, 1), (20_000, 1), (20_000, 40), (200_000, 40)] {
        let mut path = Path::new("cubic", &[("tcp_friendliness", 0)], max);
        path.round_trip();
        path.connection.socket.snd_cwnd = max;
        path.stretch = stretch;
        let kept = f64::from(path.lose());
        assert!((kept - f64::from(max) * BETA).abs() < 1.0);
        let start = path.now_us();
        let centre = ((f64::from(max) - kept) / C).cbrt();
        while (path.now_us() - start) as f64 / SECOND_US as f64 <= 1.3 * centre {
            path.round_trip();
            let seconds = (path.now_us() - start) as f64 / SECOND_US as f64;
            let expected = f64::from(max) + C * (seconds - centre).powi(3);
            let found = f64::from(path.window());
            assert!(
                (found / expected - 1.0).abs() < 0.002,
                "{seconds:.1} s after a loss at {max}: {found}, not {expected:.0}"
            );
        }
    }
}

#[test]
fn is_never_slower_than_reno_with_the_same_decrease() {
    let grown = |settings: &[(&str, i64)]| {
        let mut path = Path::new("cubic", settings, 100);
        path.rtt_us = 5000;
        path.lose();
        for _ in 0..100 {
            path.round_trip();
        }
        f64::from(path.window()) - 100.0 * BETA
    };
    let reno = 100.0 * 3.0 * (1.0 - BETA) / (1.0 + BETA);
    assert!((grown(&[]) / reno - 1.0).abs() < 0.05, "{} not {reno}", grown(&[]));
    assert!(grown(&[("tcp_friendliness", 0)]) < 0.6 * reno);
}

#[test]
fn gives_way_below_the_last_maximum() {
    let window_after_centre = |settings: &[(&str, i64)]| {
        let mut path = Path::new("cubic", settings, 10_000);
        path.lose();
        path.connection.socket.snd_cwnd = 9000;
        path.lose();
        let centre = ((9000.0 * (1.0 + BETA) / 2.0 - 9000.0 * BETA) / C).cbrt();
        let end = path.now_us() + (centre * SECOND_US as f64) as u64;
        while path.now_us() < end {
            path.round_trip();
        }
        f64::from(path.window())
    };
    let converged = window_after_centre(&[]);
    assert!((converged / (9000.0 * (1.0 + BETA) / 2.0) - 1.0).abs() < 0.01, "{converged}");
    assert!(window_after_centre(&[("fast_convergence", 0)]) > 1.04 * converged);
}

#[test]
fn idle_time_does_not_move_the_cubic() {
    let mut path = Path::new("cubic", &[("tcp_friendliness", 0)], 10_000);
    path.lose();
    for _ in 0..50 {
        path.round_trip();
    }
    let before = path.window();
    path.connection.socket.lsndtime = (path.now_us() / 1000) as u32;
    path.connection.socket.tcp_mstamp += 600 * SECOND_US;
    path.connection.event(WindowEvent::TransmitStart);
    path.round_trip();
    assert!(path.window() - before < 200, "{} to {}", before, path.window());
}

fn slow_start_window(settings: &[(&str, i64)], queue_from: u32) -> u32 {
    let mut path = Path::new("cubic", settings, 10);
    path.connection.socket.snd_ssthresh = 0x7fff_ffff;
    path.connection.socket.sk_pacing_rate = u64::MAX;
    while path.connection.socket.snd_ssthresh == 0x7fff_ffff && path.window() < 100_000 {
        // Beyond what the path holds, each packet more waits.
        path.rtt_us = 100_000 * u64::from(path.window().max(queue_from)) / u64::from(queue_from);
        path.round_trip();
    }
    path.window()
}

#[test]
fn slow_start_ends_when_the_delay_grows() {
    let settings = [("hystart_detect", 2)];
    // The first window that waits by more than an eighth is at most twice the path's; the next
    // round sees it.
    let left = slow_start_window(&settings, 1000);
    assert!((1000..=2600).contains(&left), "{left}");
    assert!(slow_start_window(&[("hystart", 0)], 1000) >= 100_000);
}

#[test]
fn slow_start_ends_when_the_train_fills_the_round_trip() {
    // Acknowledgements of a window come spread over the whole round trip, less than 2 ms apart from
    // 64 packets on.
    let left = slow_start_window(&[("hystart_detect", 1)], 1_000_000);
    assert!((64..=512).contains(&left), "{left}");
    let left = slow_start_window(&[("hystart_detect", 1), ("hystart_low_window", 5000)], 1_000_000);
    assert!(left >= 5000, "{left}");
}

#[test]
fn the_clock_of_the_kernel_hardly_matters() {
    let after = |hz: i64| {
        let mut path = Path::new("cubic", &[("hz", hz)], 20_000);
        path.lose();
        for _ in 0..200 {
            path.round_trip();
        }
        f64::from(path.window())
    };
    assert!((after(100) / after(1000) - 1.0).abs() < 0.01);
}
