use crate::bottleneck::Bottleneck;

/// Sends for some seconds; gives the share of the capacity in the last half second.
fn used(bottleneck: &Bottleneck, seconds: f64) -> f64 {
    bottleneck.run("icdc", seconds, 0.5, |_| ()).0
}

#[test]
fn an_application_that_begins_slowly_does_not_tell_what_the_path_carries() {
    for (capacity, rtt_us) in [(80_000.0, 300_000.0), (80_000.0, 50_000.0), (8_000.0, 300_000.0)] {
        let used = used(&Bottleneck { at_first: capacity / 20.0, ..Bottleneck::new(capacity, rtt_us) }, 3.2);
        assert!(used > 0.9, "{capacity} packets/s, {rtt_us} us: used {used:.3}");
    }
}

#[test]
fn a_device_that_is_the_bottleneck_is_found() {
    let bottleneck = Bottleneck { device: 80_000.0, ..Bottleneck::new(80_000.0, 100_000.0) };
    let (used, connection) = bottleneck.run("icdc", 2.0, 0.5, |_| ());
    let rate = connection.socket.sk_pacing_rate as f64 / f64::from(connection.socket.mss_cache);
    assert!((60_000.0..90_000.0).contains(&rate), "paced at {rate} packets/s");
    assert!(used > 0.9, "used {used:.3}");
}

#[test]
fn bursts_that_are_acknowledged_as_a_whole_tell_what_the_path_carries() {
    let mut low = Vec::new();
    for segmented in [true, false] {
        for capacity in [800.0, 8_000.0, 80_000.0, 800_000.0] {
            for rtt_us in [2_000.0, 10_000.0, 20_000.0, 50_000.0, 100_000.0, 300_000.0] {
                let bottleneck = Bottleneck { segmented, ..Bottleneck::new(capacity, rtt_us) };
                let used = used(&bottleneck, 2.0 + 20.0 * rtt_us / 1e6);
                if used < 0.8 {
                    low.push(format!("segmented: {segmented}, {capacity} packets/s, {rtt_us} us: used {used:.3}"));
                }
            }
        }
    }
    assert!(low.is_empty(), "{low:#?}");
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let bottleneck = Bottleneck { at_first: 40.0, ..Bottleneck::new(80_000.0, 100_000.0) };
    let (_, connection) = bottleneck.run("icdc", 0.5, 0.5, |_| ());
    assert!(connection.socket.snd_cwnd <= 20, "{} packets", connection.socket.snd_cwnd);
}

#[test]
fn what_others_leave_is_taken_whenever_they_leave() {
    for share in [0.5, 0.6, 0.7, 0.8] {
        // From seven to twelve round trips after they have left.
        let after = |quarters: u32| {
            let end = 2.0 + 0.25 * f64::from(quarters);
            used(&Bottleneck { others: (share, 2.0..end), ..Bottleneck::new(80_000.0, 100_000.0) }, end + 1.2)
        };
        let used: Vec<f64> = (3..24).map(after).collect();
        let mean = used.iter().sum::<f64>() / used.len() as f64;
        // Those that were there for less than a second had no time to be told from a path that has
        // become slower.
        assert!(mean > 0.75 && used.iter().all(|used| *used > 0.4), "others had {share}: mean {mean:.3}, {used:.2?}");
    }
}
