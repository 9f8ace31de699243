//! Replay of a kernel trace in the native build: tests that both builds of an algorithm are equal.

use thiserror::Error;

use super::{AckSample, CongestionState, Connection, RateSample, WindowEvent};
use crate::{Algorithm, ParameterError, TraceRecord, TraceState};

/// One connection's records, replayed in order. The private state is taken from the first record
/// and then carried by the native build alone; everything that the kernel changes between
/// operations is taken from each record.
pub struct Replay {
    connection: Connection,
    records: u64,
}

/// A difference between the two builds.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Difference {
    /// The private state changed between two records: records were lost, or belong to several
    /// connections.
    #[error("record {record}: the private state is not what the record before left; records are missing")]
    Gap {
        /// Number of the record, from 0.
        record: u64,
    },
    /// The native operation gave another result than the kernel's.
    #[error(
        "record {record}, {operation}: the kernel has {kernel:?}, result {kernel_result}; natively {native:?}, result {native_result}"
    )]
    Operation {
        /// Number of the record, from 0.
        record: u64,
        /// Name of the operation.
        operation: &'static str,
        /// State after the operation in the kernel.
        kernel: Box<TraceState>,
        /// Result of the operation in the kernel.
        kernel_result: u32,
        /// State after the operation in the native build.
        native: Box<TraceState>,
        /// Result of the native operation.
        native_result: u32,
    },
    /// The record is of another version of the program.
    #[error("record {record}: there is no operation {operation} with argument {argument}")]
    Unknown {
        /// Number of the record, from 0.
        record: u64,
        /// Number of the operation.
        operation: u32,
        /// The operation's second argument.
        argument: u32,
    },
}

impl Replay {
    /// A replay of a connection that had these parameters in the kernel.
    ///
    /// # Errors
    /// Unknown parameters and values out of range.
    pub fn new(algorithm: &Algorithm, settings: &[(&str, i64)]) -> Result<Self, ParameterError> {
        Ok(Self { connection: Connection::new(algorithm, settings)?, records: 0 })
    }

    /// Executes the operation of a record and compares the results.
    ///
    /// # Errors
    /// The first difference; the results of later steps are meaningless.
    pub fn step(&mut self, record: &TraceRecord) -> Result<(), Difference> {
        let number = self.records;
        if number > 0 && self.connection.socket.icsk_ca_priv != record.before.private {
            return Err(Difference::Gap { record: number });
        }
        self.connection.socket.icsk_ca_priv = record.before.private;
        self.take_inputs(record);
        let Some((operation, native_result)) = self.run(record) else {
            return Err(Difference::Unknown { record: number, operation: record.operation, argument: record.second });
        };
        self.records += 1;
        let native = self.state();
        if native == record.after && native_result == record.result {
            return Ok(());
        }
        Err(Difference::Operation {
            record: number,
            operation,
            kernel: Box::new(record.after),
            kernel_result: record.result,
            native: Box::new(native),
            native_result,
        })
    }

    /// Copies from a record into the native socket what the kernel may have changed since the
    /// operation before.
    fn take_inputs(&mut self, record: &TraceRecord) {
        let socket = &mut self.connection.socket;
        socket.tcp_mstamp = record.tcp_mstamp;
        socket.snd_cwnd = record.before.snd_cwnd;
        socket.snd_cwnd_cnt = record.before.snd_cwnd_cnt;
        socket.snd_cwnd_stamp = record.before.snd_cwnd_stamp;
        socket.snd_ssthresh = record.before.snd_ssthresh;
        socket.snd_cwnd_clamp = record.snd_cwnd_clamp;
        socket.prior_cwnd = record.prior_cwnd;
        socket.packets_out = record.packets_out;
        socket.max_packets_out = record.max_packets_out;
        socket.srtt_us = record.srtt_us;
        socket.mdev_us = record.mdev_us;
        socket.mss_cache = record.mss_cache;
        socket.delivered = record.delivered;
        socket.snd_nxt = record.snd_nxt;
        socket.snd_una = record.snd_una;
        socket.lsndtime = record.lsndtime;
        socket.lost_out = record.lost_out;
        socket.sacked_out = record.sacked_out;
        socket.retrans_out = record.retrans_out;
        socket.is_cwnd_limited = record.is_cwnd_limited;
        socket.ca_state = record.ca_state;
    }

    /// Executes the record's operation natively; returns its name and result. `None` if there is no
    /// such operation, or none with this argument.
    fn run(&mut self, record: &TraceRecord) -> Option<(&'static str, u32)> {
        let connection = &mut self.connection;
        Some(match record.operation {
            0 => {
                connection.init();
                ("init", 0)
            }
            1 => ("ssthresh", connection.ssthresh()),
            2 => {
                connection.cong_avoid(record.second, record.third);
                ("cong_avoid", 0)
            }
            3 => {
                connection.set_state(CongestionState::from_kernel(record.second)?);
                ("set_state", 0)
            }
            4 => {
                connection.event(WindowEvent::from_kernel(record.second)?);
                ("cwnd_event", 0)
            }
            5 => {
                let rtt_us = record.third.cast_signed();
                connection.pkts_acked(&AckSample { pkts_acked: record.second, rtt_us, in_flight: record.in_flight });
                ("pkts_acked", 0)
            }
            6 => ("undo_cwnd", connection.undo_cwnd()),
            7 => {
                connection.cong_control(&RateSample {
                    rtt_us: record.second.cast_signed().into(),
                    losses: record.third.cast_signed(),
                    acked_sacked: record.acked_sacked,
                    prior_in_flight: record.in_flight,
                    is_app_limited: record.is_app_limited != 0,
                    ..RateSample::default()
                });
                ("cong_control", 0)
            }
            8 => {
                connection.release();
                ("release", 0)
            }
            9 => ("min_tso_segs", connection.min_tso_segs()),
            _ => return None,
        })
    }

    /// The native socket's fields that are compared with the record.
    fn state(&self) -> TraceState {
        let socket = &self.connection.socket;
        TraceState {
            private: socket.icsk_ca_priv,
            snd_cwnd: socket.snd_cwnd,
            snd_cwnd_cnt: socket.snd_cwnd_cnt,
            snd_ssthresh: socket.snd_ssthresh,
            snd_cwnd_stamp: socket.snd_cwnd_stamp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;

    fn record(window: u32, acked: u32) -> TraceRecord {
        let mut record = TraceRecord::parse(&[0; TraceRecord::BYTES]).expect("long enough");
        (record.operation, record.third, record.is_cwnd_limited, record.snd_cwnd_clamp) = (2, acked, 1, 1000);
        record.before.snd_cwnd = window;
        record.before.snd_ssthresh = 10;
        record.after = record.before;
        record
    }

    fn reno() -> Replay {
        Replay::new(find("reno").expect("reno"), &[]).expect("no parameters")
    }

    #[test]
    fn what_the_kernel_does_is_found_equal() {
        let mut first = record(10, 9);
        first.after.snd_cwnd_cnt = 9;
        let mut second = record(10, 11);
        second.before.snd_cwnd_cnt = 9;
        second.after.snd_cwnd = 12;
        let mut replay = reno();
        assert_eq!(replay.step(&first), Ok(()));
        assert_eq!(replay.step(&second), Ok(()));
    }

    #[test]
    fn another_window_is_a_difference() {
        let error = reno().step(&record(10, 9)).expect_err("the count should be 9");
        let Difference::Operation { operation, kernel, native, .. } = error else { panic!("{error}") };
        assert_eq!((operation, kernel.snd_cwnd_cnt, native.snd_cwnd_cnt), ("cong_avoid", 0, 9));
    }

    #[test]
    fn another_result_is_a_difference() {
        let mut threshold = record(10, 0);
        (threshold.operation, threshold.result) = (1, 5);
        assert_eq!(reno().step(&threshold), Ok(()));
        threshold.result = 6;
        assert!(reno().step(&threshold).is_err());
    }

    #[test]
    fn missing_records_and_unknown_operations_are_told() {
        let mut replay = reno();
        assert_eq!(replay.step(&record(10, 0)), Ok(()));
        let mut later = record(10, 0);
        later.before.private[3] = 1;
        assert_eq!(replay.step(&later), Err(Difference::Gap { record: 1 }));
        let mut foreign = record(10, 0);
        foreign.operation = 99;
        assert_eq!(reno().step(&foreign), Err(Difference::Unknown { record: 0, operation: 99, argument: 0 }));
    }
}
