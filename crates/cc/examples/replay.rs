//! Compares a trace of the kernel with the native build: `replay ALGORITHM FILE
//! [PARAMETER=VALUE]...`, the file a sequence of `TraceRecord`s as they came from the ring buffer.

use std::collections::BTreeMap;
use std::error::Error;

use icdc_cc::native::Replay;
use icdc_cc::{TraceRecord, find};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [name, file, settings @ ..] = arguments.as_slice() else {
        return Err("usage: replay ALGORITHM FILE [PARAMETER=VALUE]...".into());
    };
    let algorithm = find(name).ok_or_else(|| format!("there is no algorithm {name}"))?;
    let settings: Vec<(&str, i64)> = settings
        .iter()
        .map(|setting| {
            let (name, value) = setting.split_once('=').ok_or("parameters are NAME=VALUE")?;
            Ok((name, value.parse()?))
        })
        .collect::<Result<_, Box<dyn Error>>>()?;
    let mut replays = BTreeMap::new();
    let mut operations = [0_u64; 10];
    let (mut largest, mut connections) = (0, 0);
    for record in std::fs::read(file)?.chunks_exact(TraceRecord::BYTES).filter_map(TraceRecord::parse) {
        let socket = record.socket;
        // A socket's address is used again: init begins a new connection.
        if record.operation == 0 || !replays.contains_key(&socket) {
            replays.insert(socket, Replay::new(algorithm, &settings)?);
            connections += 1;
        }
        let Some(replay) = replays.get_mut(&socket) else { continue };
        replay.step(&record).map_err(|difference| format!("socket {socket:#x}: {difference}"))?;
        operations[record.operation as usize] += 1;
        largest = largest.max(record.after.snd_cwnd);
    }
    let [init, ssthresh, cong_avoid, set_state, cwnd_event, pkts_acked, undo_cwnd, cong_control, release, min_tso_segs] =
        operations;
    println!(
        "{name}: equal over {connections} connections, windows to {largest}: init {init}, ssthresh {ssthresh}, cong_avoid {cong_avoid}, \
         set_state {set_state}, cwnd_event {cwnd_event}, pkts_acked {pkts_acked}, undo_cwnd {undo_cwnd}, cong_control {cong_control}, \
         release {release}, min_tso_segs {min_tso_segs}"
    );
    Ok(())
}
