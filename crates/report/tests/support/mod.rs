//! A synthetic run of ten minutes at 1 ms.

use icdc_report::{Categories, HeatMap, Plot, Report, Series, Stroke, Table, Uniform, Unit, views};
use icdc_units::{ByteCount, Rate, Span};

/// Milliseconds of the run.
pub(crate) const LENGTH: usize = 600_000;

/// Bytes of a full packet on the wire, and of a small one.
const PACKET: i64 = 1524;
const SMALL: i64 = 76;

/// What a window-controlled sender does to a 1 Gbit/s path of 300 ms: bursts at line rate and
/// silence in each round trip, growing until the queue overflows; from the middle on, paced.
/// Numbers are hard to pack.
pub(crate) fn long_report() -> Report {
    let mut noise = Noise(1);
    let (mut queue, mut bytes, mut queues, mut drops, mut ahead) = (0_i64, vec![], vec![], vec![], vec![]);
    let (mut cwnd, mut rtt) = (vec![], vec![]);
    for ms in 0..LENGTH {
        let share = 0.35 + 0.7 * ((ms % 40_000) as f64 / 40_000.0);
        let paced = ms > LENGTH / 2;
        let open = paced || ((ms % 300) as f64) < 300.0 * share;
        let packets = if paced {
            (78.0 * share.min(0.97)) as i64
        } else if open {
            84
        } else {
            0
        };
        let arriving = if open { packets * PACKET + noise.below(6) * PACKET + noise.below(40) * SMALL } else { 0 };
        let leaving = (queue + arriving).min(125_000 - noise.below(9) * SMALL);
        queue += arriving - leaving;
        let dropped = (queue - 2_500_000).max(0) / PACKET;
        queue -= dropped * PACKET;
        // One packet in every second millisecond, to be seen from near.
        let seen = if (60_000..61_000).contains(&ms) { (ms as i64 % 2) * PACKET } else { leaving };
        bytes.push(seen);
        queues.push(queue);
        drops.push(dropped);
        if ms % 10 == 0 {
            cwnd.push((37.5e6 * share) as i64);
            rtt.push(300_000_000 + queue * 8 + noise.below(20_000));
            ahead.push(if paced { 1 + noise.below(2) } else { 300 + noise.below(900) });
        }
    }
    let resent: Vec<_> = (1..=6000).map(|n| (f64::from(n) / 10.0, noise.below(i64::from(n)) as f64)).collect();
    let ms = |series: Vec<i64>| Uniform::new(Span::ZERO, Span::from_millis(1), series);
    let tens = |series: Vec<i64>| Uniform::new(Span::ZERO, Span::from_millis(10), series);
    let drops = views::marks("drops", ms(drops));
    let line = |name: &str, factor: f64| {
        let points = (1..=8).map(|n| (f64::from(n) * 0.25, (factor * f64::from(n) * 0.25).min(0.93) * 1e9));
        Series::new(name, Stroke::Line, points.collect::<Vec<_>>())
    };
    let equals = (0..8).map(|n| {
        line(["Reno", "CUBIC", "BIC", "HTCP", "HighSpeed", "Scalable", "GHSTCP", "icdc"][n], 0.3 + 0.1 * n as f64)
    });
    Report {
        title: "icdc lab run window".into(),
        command: "icdc lab run window --rate 1gbit --rtt 300ms --queue 2.5MB".into(),
        outcome: "Done; the wire kept its time".into(),
        summary: vec![("Goodput".into(), "912 Mbit/s".into()), ("Drops".into(), "1,204".into())],
        tables: vec![Table {
            caption: "Table 2: throughput in Mbit/s".into(),
            header: ["window", "paper", "ours", "difference"].map(Into::into).into(),
            rows: [
                ["8 MB", "212", "209", "−1.4 %"],
                ["37.5 MB", "934", "931", "−0.3 %"],
                ["unlimited, without pacing", "411", "≈ 398", "−3.2 %"],
            ]
            .map(|row| row.map(Into::into).into())
            .into(),
        }],
        heat_maps: (0..3).map(heat_map).collect(),
        plots: vec![
            views::throughput(
                Uniform::rates(Span::ZERO, Span::from_millis(1), bytes),
                Some(Rate::from_bits_per_second(1_000_000_000)),
                vec![drops],
            ),
            views::queue(ms(queues), Some(ByteCount::new(2_500_000))),
            views::congestion_window(tens(cwnd)),
            views::pacing_rate((0..600).map(|s| (f64::from(s), 9e8 + f64::from(s) * 1e5)).collect::<Vec<_>>()),
            views::round_trip_time(tens(rtt).scaled(1e-9)),
            Plot::new(
                "Segments retransmitted",
                Unit::SegmentsPerSecond,
                vec![
                    Series::new("each 100 ms", Stroke::Area, resent.clone()),
                    Series::new("timeouts", Stroke::Marks, resent.into_iter().step_by(700).collect::<Vec<_>>()),
                ],
            ),
            Plot::new(
                "Burstiness",
                Unit::Mtu,
                vec![Series::new("ahead of the mean rate", Stroke::Strong, tens(ahead))],
            ),
            Plot::new("Throughput by window", Unit::BitsPerSecond, equals.collect())
                .over("Window as a multiple of rate × delay", Unit::Number),
        ],
        ..Report::default()
    }
}

/// Goodput by round trip and loss, with a cell of nothing.
fn heat_map(number: usize) -> HeatMap {
    let value = |row: usize, column: usize| {
        let share = 0.95 / (1.0 + (row * column * column * (number + 1)) as f64 / 4.0);
        (row + column > 0).then_some(share * 1e9)
    };
    HeatMap::new(
        &format!("{}: goodput, payload of 1 Gbit/s", ["Reno", "CUBIC", "Scalable"][number]),
        Unit::BitsPerSecond,
        Categories::new("RTT", ["10 ms", "50 ms", "100 ms", "300 ms", "500 ms"]),
        Categories::new("loss", ["1e-8", "1e-7", "1e-6", "1e-5", "1e-4"]),
        (0..5).map(|row| (0..5).map(|column| value(row, column)).collect()).collect(),
    )
    .between(1e6, 957e6)
    .logarithmic()
}

/// A small generator of numbers that look random, the same in each run.
struct Noise(u64);

impl Noise {
    fn below(&mut self, limit: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as i64) % limit
    }
}
