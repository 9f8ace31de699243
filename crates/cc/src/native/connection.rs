//! The operations of one connection.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{AckSample, RateSample, Socket, sys};
use crate::{Algorithm, ParameterError};

/// The kernel's least number of packets of an aggregate where an algorithm has no operation `min_tso_segs`
/// (`net.ipv4.tcp_min_tso_segs`).
const MIN_TSO_SEGS: u32 = 2;

/// States of loss recovery, as the kernel numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CongestionState {
    /// No loss or congestion is being handled.
    Open,
    /// Duplicate acknowledgements or SACKs, nothing known lost.
    Disorder,
    /// The window is being reduced without loss (ECN, local drop).
    Reducing,
    /// Lost segments are retransmitted: fast recovery.
    Recovery,
    /// Recovery after a retransmission timeout.
    Loss,
}

/// Events that the kernel reports to an algorithm besides acknowledgements, with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WindowEvent {
    /// First transmission with nothing in flight.
    TransmitStart,
    /// The window is reset after idle.
    Restart,
    /// Recovery has ended.
    RecoveryComplete,
    /// A retransmission timeout has occurred.
    Timeout,
    /// A packet arrived without a mark of congestion, after some with one.
    EcnUnmarked,
    /// A packet arrived with a mark of congestion.
    EcnMarked,
}

impl CongestionState {
    /// The state that the kernel numbers so; `None` if there is none.
    pub(super) fn from_kernel(number: u32) -> Option<Self> {
        [Self::Open, Self::Disorder, Self::Reducing, Self::Recovery, Self::Loss].get(number as usize).copied()
    }
}

impl WindowEvent {
    /// The event that the kernel numbers so; `None` if there is none.
    pub(super) fn from_kernel(number: u32) -> Option<Self> {
        let events = [
            Self::TransmitStart,
            Self::Restart,
            Self::RecoveryComplete,
            Self::Timeout,
            Self::EcnUnmarked,
            Self::EcnMarked,
        ];
        events.get(number as usize).copied()
    }
}

/// One connection's algorithm with its parameters. The caller maintains the fields of [`Socket`] as
/// the kernel would. An operation that the algorithm does not have does nothing.
pub struct Connection {
    /// The connection as the algorithm reads and changes it.
    pub socket: Socket,
    operations: &'static sys::Operations,
    parameters: &'static [&'static sys::Parameter],
    values: Vec<i64>,
    number: u64,
    begun: bool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.release();
    }
}

thread_local! {
    /// Number of the connection whose values the parameters have on this thread.
    static SET: Cell<u64> = const { Cell::new(0) };
}

/// Number for the next connection, different for each in this process; 0 is none.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

impl Connection {
    /// A connection in slow start with the kernel's initial window, not yet
    /// [`init`](Self::init)ialised.
    ///
    /// # Errors
    /// Unknown parameters and values out of range.
    pub fn new(algorithm: &Algorithm, settings: &[(&str, i64)]) -> Result<Self, ParameterError> {
        Ok(Self {
            socket: Socket {
                snd_cwnd: 10,
                snd_cwnd_clamp: u32::MAX,
                snd_ssthresh: 0x7fff_ffff,
                sk_max_pacing_rate: u64::MAX,
                mss_cache: 1448,
                ..Socket::default()
            },
            operations: algorithm.native.operations(),
            parameters: algorithm.native.parameters(),
            values: algorithm.values(settings)?,
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            begun: false,
        })
    }

    /// Calls the algorithm's operation `init`: the connection is established.
    pub fn init(&mut self) {
        self.set_parameters();
        self.begun = true;
        if let Some(init) = self.operations.init {
            // SAFETY: the socket outlives the call, as for every operation below; layouts are
            // tested.
            unsafe { init(&raw mut self.socket) }
        }
    }

    /// Calls the algorithm's operation `release`: the connection is closed. A second time it does
    /// nothing.
    pub fn release(&mut self) {
        if let Some(release) = self.operations.release.filter(|_| std::mem::take(&mut self.begun)) {
            self.set_parameters();
            // SAFETY: as in `init`.
            unsafe { release(&raw mut self.socket) }
        }
    }

    /// Calls the algorithm's operation `cong_avoid`: packets were acknowledged outside recovery.
    pub fn cong_avoid(&mut self, ack: u32, acked: u32) {
        self.set_parameters();
        if let Some(cong_avoid) = self.operations.cong_avoid {
            // SAFETY: as in `init`.
            unsafe { cong_avoid(&raw mut self.socket, ack, acked) }
        }
    }

    /// Calls the algorithm's operation `ssthresh`: a loss was found. Returns the new slow-start
    /// threshold in packets.
    pub fn ssthresh(&mut self) -> u32 {
        self.set_parameters();
        let ssthresh = self.operations.ssthresh.expect("the kernel requires ssthresh");
        // SAFETY: as in `init`.
        unsafe { ssthresh(&raw mut self.socket) }
    }

    /// Calls the algorithm's operation `set_state`: recovery changes its state. `socket.ca_state`
    /// is set afterwards, as in the kernel.
    pub fn set_state(&mut self, state: CongestionState) {
        self.set_parameters();
        if let Some(set_state) = self.operations.set_state {
            // SAFETY: as in `init`.
            unsafe { set_state(&raw mut self.socket, state as u8) }
        }
        self.socket.ca_state = state as u32;
    }

    /// Calls the algorithm's operation `cwnd_event`, for an event that has no operation of its own.
    pub fn event(&mut self, event: WindowEvent) {
        self.set_parameters();
        if let Some(cwnd_event) = self.operations.cwnd_event {
            // SAFETY: as in `init`.
            unsafe { cwnd_event(&raw mut self.socket, event as u32) }
        }
    }

    /// Whether the algorithm has an operation `min_tso_segs`.
    #[must_use]
    pub fn has_min_tso_segs(&self) -> bool {
        self.operations.min_tso_segs.is_some()
    }

    /// Calls the algorithm's operation `min_tso_segs`, as the kernel does before packets leave: it may
    /// change the pacing rate. Returns the least number of packets of an aggregate.
    pub fn min_tso_segs(&mut self) -> u32 {
        self.set_parameters();
        // SAFETY: as in `init`.
        self.operations.min_tso_segs.map_or(MIN_TSO_SEGS, |min_tso_segs| unsafe { min_tso_segs(&raw mut self.socket) })
    }

    /// Calls the algorithm's operation `pkts_acked` with the times of an acknowledgement.
    pub fn pkts_acked(&mut self, sample: &AckSample) {
        self.set_parameters();
        if let Some(pkts_acked) = self.operations.pkts_acked {
            // SAFETY: as in `init`.
            unsafe { pkts_acked(&raw mut self.socket, sample) }
        }
    }

    /// Whether the algorithm sets window and pacing itself, by
    /// [`cong_control`](Self::cong_control).
    #[must_use]
    pub fn controls(&self) -> bool {
        self.operations.cong_control.is_some()
    }

    /// Calls the algorithm's operation `cong_control` for an acknowledgement; nothing for an
    /// algorithm that does not [control](Self::controls) the window itself.
    pub fn cong_control(&mut self, sample: &RateSample) {
        self.set_parameters();
        if let Some(cong_control) = self.operations.cong_control {
            // SAFETY: as in `init`.
            unsafe { cong_control(&raw mut self.socket, sample) }
        }
    }

    /// Calls the algorithm's operation `undo_cwnd`: a reduction turned out wrong. Returns the new
    /// window in packets.
    pub fn undo_cwnd(&mut self) -> u32 {
        self.set_parameters();
        let undo_cwnd = self.operations.undo_cwnd.expect("the kernel requires undo_cwnd");
        // SAFETY: as in `init`.
        unsafe { undo_cwnd(&raw mut self.socket) }
    }

    /// Sets the parameters of the C code, which are variables of this thread, to this connection's
    /// values, if another connection's were set.
    fn set_parameters(&self) {
        if self.parameters.is_empty() || SET.get() == self.number {
            return;
        }
        for (parameter, &value) in self.parameters.iter().zip(self.values.iter()) {
            // SAFETY: a setter of this thread's variable.
            unsafe { (parameter.set)(value) }
        }
        SET.set(self.number);
    }
}
