use icdc_cc::native::Connection;

use crate::bottleneck::Bottleneck;

struct Seen {
    /// Share of the bottleneck used over the last seconds.
    share: f64,
    /// Greatest window over that time, as a multiple of what the path holds.
    most: f64,
    least_window: u32,
    connection: Connection,
}

/// A sender that always has data, behind a bottleneck without loss. Returns what the last `seconds`
/// of 30 showed.
fn run(packets_per_second: f64, rtt_us: f64, seconds: f64) -> Seen {
    let (mut most, mut least_window) = (0_u32, u32::MAX);
    let (share, connection) = Bottleneck::new(packets_per_second, rtt_us).run("bbr", 30.0, seconds, |connection| {
        most = most.max(connection.socket.snd_cwnd);
        least_window = least_window.min(connection.socket.snd_cwnd);
    });
    Seen { share, most: f64::from(most) / (packets_per_second * rtt_us / 1e6), least_window, connection }
}

#[test]
fn finds_the_rate_and_keeps_the_queue_short() {
    for (rate, rtt_ms) in [(1000.0, 20.0), (10_000.0, 100.0), (80_000.0, 10.0)] {
        let seen = run(rate, rtt_ms * 1000.0, 8.0);
        assert!(seen.share > 0.93, "{rate} packets/s, {rtt_ms} ms: used {:.3}", seen.share);
        assert!(seen.most < 2.6, "{rate} packets/s, {rtt_ms} ms: {:.2} times the path", seen.most);
        let paced = seen.connection.socket.sk_pacing_rate as f64 / 1448.0 / rate;
        assert!((0.7..1.3).contains(&paced), "{rate} packets/s, {rtt_ms} ms: paced at {paced:.3} of it");
    }
}

#[test]
fn measures_the_round_trip_anew_every_ten_seconds() {
    assert_eq!(run(10_000.0, 50_000.0, 12.0).least_window, 4);
}
