//! What Linux's own modules did: the records of `bench/oracle/run.sh`.

use std::fmt;

/// A path of `bench/oracle/paths.txt`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Path {
    pub(crate) megabits: u64,
    pub(crate) rtt_ms: u64,
    /// Packets.
    pub(crate) queue: u64,
    /// Bytes of the largest IP packet.
    pub(crate) mtu: u64,
    /// Packets that an acknowledgement answers.
    pub(crate) acks: u64,
    pub(crate) seconds: u64,
    /// Numbers of the data packets that are lost, from 1.
    pub(crate) drops: Vec<u64>,
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { megabits, rtt_ms, queue, mtu, acks, .. } = self;
        write!(out, "{megabits} Mbit/s, {rtt_ms} ms, {queue} packets of {mtu}, acks of {acks}")?;
        if !self.drops.is_empty() {
            write!(out, ", {} dropped", self.drops.len())?;
        }
        Ok(())
    }
}

/// One connection of the kernel's.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) path: Path,
    pub(crate) algorithm: String,
    /// Mean goodput, bits per second.
    pub(crate) goodput: f64,
    /// Packets, after each 100 ms.
    pub(crate) windows: Vec<u32>,
}

/// All of a record; lines that begin with # say how it was made.
pub(crate) fn parse(text: &str) -> Vec<Trace> {
    text.lines().filter(|line| !line.starts_with('#')).map(trace).collect()
}

fn trace(line: &str) -> Trace {
    let fields: Vec<&str> = line.split('|').collect();
    let [path, algorithm, goodput, _retransmitted, windows] = fields[..] else { panic!("five fields: {line}") };
    Trace {
        path: path_of(path),
        algorithm: algorithm.to_owned(),
        goodput: goodput.parse::<f64>().expect("Mbit/s") * 1e6,
        windows: windows.split(' ').map(|window| window.parse().expect("packets")).collect(),
    }
}

fn path_of(text: &str) -> Path {
    let fields: Vec<&str> = text.split(' ').collect();
    let [rate, rtt, queue, mtu, acks, seconds, drops] = fields[..] else { panic!("seven fields: {text}") };
    let number = |text: &str, unit| text.strip_suffix(unit).and_then(|text| text.parse().ok()).expect("a number");
    let drops = drops.split(',').filter_map(|number| number.parse().ok()).collect();
    Path {
        megabits: number(rate, "mbit"),
        rtt_ms: number(rtt, "ms"),
        queue: number(queue, ""),
        mtu: number(mtu, ""),
        acks: number(acks, ""),
        seconds: number(seconds, ""),
        drops,
    }
}
