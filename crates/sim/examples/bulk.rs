//! One Reno flow over a long fat path, for profiling: `bulk RATE RTT SECONDS`.
#![allow(clippy::unwrap_used, reason = "an example may panic")]

use icdc_path::Settings;
use icdc_sim::{Acknowledgements, Flow, ReceiveWindow, Scenario, simulate};
use icdc_units::{ByteCount, Rate, Span};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [rate, rtt, seconds] = &words[..] else { panic!("bulk RATE RTT SECONDS") };
    let (rate, rtt): (Rate, Span) = (rate.parse().unwrap(), rtt.parse().unwrap());
    let direction = Settings { rate, delay: rtt / 2, queue: rate * rtt, ..Settings::default() };
    let window = ReceiveWindow::Tuned { most: ByteCount::new(u64::MAX) };
    let scenario = Scenario {
        forward: direction.clone(),
        backward: direction,
        flows: vec![Flow::bulk(icdc_cc::find("reno").unwrap(), window)],
        duration: Span::from_secs(seconds.parse().unwrap()),
        acknowledgements: Acknowledgements::EverySecond,
        segmentation: false,
    };
    let outcome = simulate(&scenario, &mut ()).unwrap();
    println!("{} packets, {}", outcome.packets(), outcome.goodput());
    println!("{:?}", outcome.flows[0]);
}
