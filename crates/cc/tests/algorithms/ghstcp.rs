use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::path::{Path, assert_close};

const WINDOW: u32 = 10_000;
/// Growth as the RFC counts, which does not depend on how many packets an acknowledgement answers.
const FORMULA: [(&str, i64); 1] = [("per_ack", 0)];

/// Growth per round trip after `rounds` round trips of the given times, at a window of 10000
/// packets.
fn growth(settings: &[(&str, i64)], mut rtt_us: impl FnMut(u64) -> u64) -> f64 {
    let mut path = Path::new("ghstcp", settings, WINDOW);
    path.stretch = 100;
    // Many blocks of samples, 32 per round trip.
    for step in 0..2400 {
        path.rtt_us = rtt_us(step);
        path.connection.socket.tcp_mstamp += 1000;
        path.acknowledge(100);
        path.connection.socket.snd_cwnd = WINDOW;
    }
    let mut grown = 0;
    for step in 2400..2400 + 1000 {
        path.rtt_us = rtt_us(step);
        path.connection.socket.tcp_mstamp += 1000;
        path.acknowledge(100);
        grown += path.window() - WINDOW;
        path.connection.socket.snd_cwnd = WINDOW;
    }
    f64::from(grown) / 10.0
}

fn highspeed() -> f64 {
    let mut path = Path::new("highspeed", &FORMULA, WINDOW);
    path.round_trip();
    f64::from(path.window() - WINDOW)
}

#[test]
fn grows_as_reno_while_round_trips_rise() {
    // A queue that grows by 10 ms per second.
    assert_close(growth(&FORMULA, |step| 100_000 + 10 * step), 1.0, "rising");
}

#[test]
fn grows_as_highspeed_while_round_trips_are_flat_or_fall() {
    assert!(highspeed() > 25.0);
    assert_close(growth(&FORMULA, |_| 100_000), highspeed(), "flat");
    assert_close(growth(&FORMULA, |step| 200_000 - 10 * step), highspeed(), "falling");
}

#[test]
fn sees_a_trend_within_noise_and_none_in_noise() {
    // The sum of a linear congruential generator's turns: the same numbers each time.
    let mut noise = 12345_u64;
    let mut next = move |most: u64| {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (noise >> 33) % most
    };
    let settings = [("samples", 64), ("critical", 239), ("per_ack", 0)];
    assert_close(growth(&settings, |step| 100_000 + 10 * step + next(2000)), 1.0, "rising with noise");

    let settings = [("critical", 400), ("per_ack", 0)];
    let mut noise = 1_u64;
    let mut next = move |most: u64| {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (noise >> 33) % most
    };
    assert_close(growth(&settings, |_| 100_000 + next(2000)), highspeed(), "noise only");
}

/// In Reno's mode.
fn rising(settings: &[(&str, i64)]) -> Path {
    let mut path = Path::new("ghstcp", settings, WINDOW);
    path.stretch = 100;
    for step in 0..3000 {
        path.rtt_us = 100_000 + 10 * step;
        path.connection.socket.tcp_mstamp += 1000;
        path.acknowledge(100);
    }
    path.connection.socket.snd_cwnd = WINDOW;
    path
}

#[test]
fn a_loss_ends_the_gentle_mode() {
    let mut path = rising(&FORMULA);
    path.lose();
    path.connection.socket.snd_cwnd = WINDOW;
    path.round_trip();
    assert_close(f64::from(path.window() - WINDOW), highspeed(), "after the loss");
}

#[test]
fn a_loss_takes_off_what_the_mode_says() {
    let gentle = WINDOW / 2;
    let fast = Path::new("highspeed", &FORMULA, WINDOW).lose();
    assert!(fast > gentle + WINDOW / 4);
    let kept = |mut path: Path| (path.lose(), path);
    let (first, mut path) = kept(rising(&FORMULA));
    assert_eq!(first, gentle);
    path.connection.socket.snd_cwnd = WINDOW;
    assert_eq!(path.lose(), fast, "the loss has begun a new block");
    assert_eq!(Path::new("ghstcp", &FORMULA, WINDOW).lose(), fast);
    for (decrease, expected) in [(0, fast), (1, gentle)] {
        let settings = [("per_ack", 0), ("decrease", decrease)];
        assert_eq!(rising(&settings).lose(), expected, "decrease {decrease}, rising");
        assert_eq!(Path::new("ghstcp", &settings, WINDOW).lose(), expected, "decrease {decrease}, flat");
    }
}

/// Student's test in floating point.
fn rises(samples: &[(f64, f64)], critical: f64) -> Option<bool> {
    let n = samples.len() as f64;
    let (mean_d, mean_t) = (samples.iter().map(|s| s.0).sum::<f64>() / n, samples.iter().map(|s| s.1).sum::<f64>() / n);
    let covariance: f64 = samples.iter().map(|s| (s.0 - mean_d) * (s.1 - mean_t)).sum();
    let variance_d: f64 = samples.iter().map(|s| (s.0 - mean_d).powi(2)).sum();
    let variance_t: f64 = samples.iter().map(|s| (s.1 - mean_t).powi(2)).sum();
    let r = covariance / (variance_d * variance_t).sqrt();
    let t = r * ((n - 2.0) / (1.0 - r * r).max(1e-12)).sqrt();
    // Too close to the limit to ask integers.
    ((t - critical).abs() > 0.02 * critical).then_some(t > critical)
}

#[test]
fn the_test_in_integers_is_students() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(300) });
    let rtts = prop::collection::vec(20_000_u64..22_000, 64);
    let (rising, flat) = (Cell::new(0), Cell::new(0));
    runner
        .run(&(rtts, 0_u64..60, 1_u64..20), |(noise, slope, scale)| {
            let mut path = Path::new(
                "ghstcp",
                &[("samples", 64), ("critical", 239), ("samples_per_rtt", 1), ("per_ack", 0)],
                WINDOW,
            );
            let mut samples = Vec::new();
            for (step, noise) in noise.iter().enumerate() {
                path.rtt_us = (noise + slope * step as u64) * scale;
                path.connection.socket.tcp_mstamp += 1 + path.rtt_us;
                samples.push(((path.now_us() - path.rtt_us) as f64, path.rtt_us as f64));
                path.acknowledge(1);
            }
            path.connection.socket.snd_cwnd = WINDOW;
            let Some(expected) = rises(&samples, 2.39) else { return Ok(()) };
            // A whole window acknowledged at one moment takes no further sample.
            path.acknowledge(WINDOW);
            let grown = path.window() - WINDOW;
            prop_assert_eq!(grown < 3, expected, "growth {}", grown);
            let seen = if expected { &rising } else { &flat };
            seen.set(seen.get() + 1);
            Ok(())
        })
        .expect("the trend is as Student says");
    assert!(rising.get() > 20 && flat.get() > 20, "{} rising, {} flat", rising.get(), flat.get());
}
