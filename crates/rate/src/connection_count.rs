//! Number of connections that a path needs.
//!
//! A connection has no more in flight than its buffers allow, so on a long path one connection
//! carries a small part of what the path does.

use icdc_units::{ByteCount, Rate, Ratio, Span};

/// Window of a kind of TCP connection or channel, and the bounds of the number of such connections
/// that are made by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Bytes that one connection carries in a round trip at most.
    pub bytes: ByteCount,
    /// Greatest number of connections.
    most: u8,
    /// Rate to be reached on a path of which nothing is known.
    unknown: Rate,
}

/// TCP with the kernels' own limits of socket buffers: half of the third value of `tcp_rmem`, 6 MiB
/// in Linux, as `tcp_adv_win_scale` of 1 leaves to the window (`ip-sysctl.rst`). At 300 ms this
/// makes 15 connections, which fill 1 Gbit/s without a drop (row "stock user" in
/// `bench/runs/2026-11-25-b921dda669-lab-any-host`).
pub const KERNEL_BUFFERS: Window =
    Window { bytes: ByteCount::from_mib(3), most: 16, unknown: Rate::from_bits_per_second(1_200_000_000) };
/// A channel of OpenSSH (`CHAN_SES_WINDOW_DEFAULT` in its `channels.h`). Nothing controls the rate
/// of these connections together, so with their headers and after a pause of a host they are not to
/// exceed what a path of 1 Gbit/s holds: 18 of them dropped 9,659 packets at 300 ms
/// (`bench/runs/2026-11-23-f8ae9dd9ce-lab-any-host`), and 17 left no room after a pause (commit
/// 77b7f989).
pub const SSH_CHANNEL: Window =
    Window { bytes: ByteCount::from_mib(2), most: MOST, unknown: Rate::from_bits_per_second(890_000_000) };
/// A channel of OpenSSH by a jump host, whose sshd leaves Nagle's algorithm on where it runs no
/// program: the message that opens the window waits there until the one before it is acknowledged,
/// half a round trip in the mean, so that a window takes 3/2 round trips.
pub const SSH_CHANNEL_BY_JUMP_HOST: Window = Window { bytes: ByteCount::from_kib(2048 * 2 / 3), ..SSH_CHANNEL };
/// Most connections that are made by default: as many channels by a jump host as a path of 300 ms
/// needs (`long_paths_need_many_and_short_ones_one`).
pub const MOST: u8 = 24;
/// Streams over datagrams, which share one congestion control, so that several threads encrypt and decrypt. Chosen; not varied.
pub const OVER_DATAGRAMS: u8 = 8;
/// Margin above the known rate of a path. Over 1 Gbit/s and 300 ms it makes 14 connections; with 28
/// and 48, 2 GB took 22.8 to 24.1 s in place of 20.9 to 21.1 (commit b921dda6).
const KNOWN_RATE_MARGIN: Ratio = Ratio::new(1, 4);

impl Window {
    /// This window with another number of bytes.
    #[must_use]
    pub fn with(self, bytes: ByteCount) -> Self {
        Self { bytes, ..self }
    }

    /// This window where a peer offers `offered`: the larger one counts.
    #[must_use]
    pub fn or(self, offered: ByteCount) -> Self {
        Self { bytes: self.bytes.max(offered), ..self }
    }
}

/// Number of connections of this window for a path of this round-trip time that is known to carry
/// `known`; `None` if that is unknown, so that the window's default rate counts. At least 1, and at
/// most the window's greatest number.
#[must_use]
pub fn needed(window: Window, round_trip: Span, known: Option<Rate>) -> u8 {
    let rate = known.map_or(window.unknown, |known| known + known * KNOWN_RATE_MARGIN);
    let windows = (rate * round_trip).as_u64().div_ceil(window.bytes.as_u64());
    u8::try_from(windows).unwrap_or(window.most).clamp(1, window.most)
}

/// Number of connections as by [`needed`], where the user limits the rate to `limit`; `None` for no
/// limit.
#[must_use]
pub fn needed_for(window: Window, round_trip: Span, known: Option<Rate>, limit: Option<Rate>) -> u8 {
    let of_path = needed(window, round_trip, known);
    limit.map_or(of_path, |limit| of_path.min(needed(window, round_trip, Some(limit))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_need_many_and_short_ones_one() {
        let of = |millis| needed(KERNEL_BUFFERS, Span::from_millis(millis), None);
        assert_eq!([of(0), of(1), of(20), of(50), of(100), of(300), of(1000)], [1, 1, 1, 3, 5, 15, 16]);
        let known = |mbit: u64| {
            needed(KERNEL_BUFFERS, Span::from_millis(300), Some(Rate::from_bits_per_second(mbit * 1_000_000)))
        };
        assert_eq!([known(10), known(100), known(900), known(100_000)], [1, 2, 14, 16]);
        let of_root =
            |mebibytes| needed(KERNEL_BUFFERS.or(ByteCount::from_mib(mebibytes)), Span::from_millis(300), None);
        assert_eq!([of_root(0), of_root(12), of_root(200)], [15, 4, 1]);
        let by_ssh = |millis| needed(SSH_CHANNEL, Span::from_millis(millis), None);
        assert_eq!([by_ssh(1), by_ssh(20), by_ssh(100), by_ssh(300), by_ssh(1000)], [1, 2, 6, 16, 24]);
        let by_jump_host = |millis| needed(SSH_CHANNEL_BY_JUMP_HOST, Span::from_millis(millis), None);
        assert_eq!([by_jump_host(1), by_jump_host(100), by_jump_host(300)], [1, 8, 24]);
    }
}
