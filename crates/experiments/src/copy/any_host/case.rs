//! The rows of the table of copies: path, hosts, what is copied and how, and what is required.

use icdc_lab::Settings;
use icdc_path::loss::Model;
use icdc_units::{ByteCount, Rate, Span};

use crate::copy::any_host::accounts::Account;
use crate::copy::any_host::far_side::Access;
use crate::copy::any_host::pauses::Pauses;
use crate::copy::peers::Load;
use crate::harness::hosts::paths::path;

/// A row of the table: one kind of copy and its requirements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) required: &'static str,
    rate: Rate,
    round_trip: Span,
    queue: ByteCount,
    loss: f64,
    /// Mean number of packets that are lost in a row; `None` if each is lost by itself.
    burst: Option<f64>,
    /// Greatest additional delay of a packet.
    jitter: Span,
    /// True if the far end sends.
    pub(super) pulls: bool,
    /// The account that copies; a user's hosts are stock ones, root's are tuned.
    pub(super) account: Account,
    /// The account of the far end.
    pub(super) far_account: Account,
    pub(super) access: Access,
    pub(super) load: Load,
    /// Size of the file that is copied.
    pub(super) size: ByteCount,
    /// An earlier copy has used the path.
    pub(super) is_known: bool,
    /// Number of connections, if the row names one.
    pub(super) streams: Option<u8>,
    pub(super) ring: Option<ByteCount>,
    pub(super) via: Option<&'static str>,
    pub(super) pauses: Option<Pauses>,
    /// Whether it has so many processes or connections that a small machine would be the limit.
    many: bool,
}

impl Case {
    /// Settings of the lab; `seed` is that of the losses.
    pub(super) fn settings(&self, seed: u64) -> Settings {
        let loss = match (self.loss, self.burst) {
            (0.0, _) => Model::None,
            (ratio, Some(mean_length)) => Model::Burst { ratio, mean_length },
            (ratio, None) => Model::Random(ratio),
        };
        let jitter = self.jitter;
        let forward = icdc_path::Settings { loss, seed, jitter, ..path(self.rate, self.round_trip, self.queue) };
        let stock = [self.account, self.far_account].contains(&Account::User);
        Settings { stock, share_processors: self.many, ..Settings::symmetric(forward) }
    }
}

const GIGABIT: Rate = Rate::from_bits_per_second(1_000_000_000);
/// Round-trip time of the usual case.
const LONG: Span = Span::from_millis(300);
const SMALL_QUEUE: ByteCount = ByteCount::new(2_500_000);
const LARGE_QUEUE: ByteCount = ByteCount::new(25_000_000);

/// The usual case, from which the others are derived: a user's copy of 2 GB between stock hosts
/// over 1 Gbit/s and 300 ms, with a stand-in for ssh.
const STOCK: Case = Case {
    name: "stock, queue 2.5 MB",
    required: "≤ 22.5 s, ≤ 500 drops at start-up, ≤ 0.2 % retransmitted",
    rate: GIGABIT,
    round_trip: LONG,
    queue: SMALL_QUEUE,
    loss: 0.0,
    burst: None,
    jitter: Span::ZERO,
    pulls: false,
    account: Account::User,
    far_account: Account::User,
    access: Access::StandIn,
    load: Load::File,
    size: ByteCount::new(2_000_000_000),
    is_known: false,
    streams: None,
    ring: None,
    via: None,
    pauses: None,
    many: false,
};

/// The usual case with root at both ends, on tuned hosts.
const ROOT: Case = as_root(STOCK);
/// The usual case through real ssh, whose port is the only one that is open.
const PORT_22: Case =
    Case { name: "port 22 only, ssh", required: "≤ 27 s", access: Access::Port22, many: true, ..STOCK };
/// The same by way of a jump host.
const JUMP_HOST: Case =
    Case { name: "port 22 only, jump host", required: "≤ 33 s", access: Access::JumpHost, ..PORT_22 };
/// The usual case on a path that loses packets, by the route that icdc chooses.
const LOSSY: Case = Case { required: "", many: true, ..STOCK };
/// The usual case over datagrams from the start.
const OVER_DATAGRAMS: Case = Case { required: "≤ 22 s", via: Some("udp"), ..STOCK };
/// The usual case over a round trip of a second.
const SECOND: Case = Case {
    required: "≥ 750 Mbit/s steady",
    round_trip: Span::from_secs(1),
    size: ByteCount::new(4_000_000_000),
    ..OVER_DATAGRAMS
};
/// Mean length of a burst of losses, in packets.
const BURST: Option<f64> = Some(20.0);
/// Requirement of root's copies on an unknown path.
const UNKNOWN: &str = "≤ 19.5 s, within 2 % of the others, no more drops than 1 stream";
/// Requirement of root's copies on a known path.
const KNOWN: &str = "≤ 18.5 s, within 2 % of the others, no more drops than 1 stream";

/// A user's copy over 100 Mbit/s and 80 ms.
const CONTINENT: Case = Case {
    rate: Rate::from_bits_per_second(100_000_000),
    round_trip: Span::from_millis(80),
    queue: ByteCount::new(50_000),
    size: ByteCount::new(500_000_000),
    required: "as before: steady 88 to 90 Mbit/s",
    ..STOCK
};
/// A user's copy over 300 Mbit/s and 500 ms.
const SATELLITE: Case = Case {
    rate: Rate::from_bits_per_second(300_000_000),
    round_trip: Span::from_millis(500),
    queue: ByteCount::new(1_000_000),
    size: ByteCount::new(1_000_000_000),
    required: "≤ 33 s",
    ..STOCK
};
/// A user's copy over 1 Gbit/s without delay.
const LAN: Case = Case { round_trip: Span::ZERO, required: "as before", ..STOCK };

/// A user's copy over 10 Gbit/s and 1 ms.
const TEN_GIGABIT: Case = Case {
    rate: Rate::from_bits_per_second(10_000_000_000),
    round_trip: Span::from_millis(1),
    required: "as before",
    ..STOCK
};

/// The case with root at both ends in place of its accounts.
const fn as_root(case: Case) -> Case {
    Case { account: Account::Root, far_account: Account::Root, ..case }
}

/// A case over 100 Mbit/s and 80 ms with the number of connections and the ring's size in MiB set
/// by options; each must end within 1.3 times the best of them.
const fn by_hand(name: &'static str, streams: u8, ring: u64) -> Case {
    let size = ByteCount::new(200_000_000);
    let required = "≤ 1.3 × the best of these";
    Case { name, required, streams: Some(streams), ring: Some(ByteCount::from_mib(ring)), size, ..CONTINENT }
}

/// The usual case, for copies on a machine whose processors pause.
const PAUSED: Case = Case { required: "steady ≥ 97 % of that without pauses, nothing dropped", ..STOCK };
/// Frequent short pauses of the processors.
const SHORT_PAUSES: Pauses = Pauses { length: Span::from_millis(10), period: Span::from_millis(125) };
/// Rare long pauses of the processors.
const LONG_PAUSES: Pauses = Pauses { length: Span::from_millis(30), period: Span::from_secs(1) };

/// All rows of the table of copies.
pub(super) const ALL: [Case; 48] = [
    STOCK,
    Case { name: "stock, loss 1e-6", required: "≤ 23 s", loss: 1e-6, ..STOCK },
    Case { name: "stock, loss 1e-4", required: "≤ 24 s", loss: 1e-4, many: true, ..STOCK },
    Case { name: "stock, queue 25 MB", required: "≤ 22.5 s, ≤ 0.2 % retransmitted", queue: LARGE_QUEUE, ..STOCK },
    Case { name: "stock, known path", required: "≤ 20.5 s, ≤ 0.2 % retransmitted", is_known: true, ..STOCK },
    Case { name: "stock, all ports, ssh", required: "within 1 % of --via direct", access: Access::Ssh, ..STOCK },
    Case {
        name: "stock, all ports, ssh, --via direct",
        required: "",
        via: Some("direct"),
        access: Access::Ssh,
        ..STOCK
    },
    PORT_22,
    JUMP_HOST,
    Case { name: "port 22 only, ssh, known host", required: "≤ 24 s", is_known: true, ..PORT_22 },
    Case { name: "port 22 only, jump host, known host", required: "≤ 28 s", is_known: true, ..JUMP_HOST },
    Case { name: "5,000 files of 16 KiB, ssh", required: "≤ 7 s", access: Access::Ssh, load: Load::Tree, ..STOCK },
    Case { name: "root, 1 stream", required: UNKNOWN, streams: Some(1), ..ROOT },
    Case { name: "root, 4 streams", required: UNKNOWN, streams: Some(4), ..ROOT },
    Case { name: "root, 16 streams", required: UNKNOWN, streams: Some(16), ..ROOT },
    Case { name: "root, known path, 1 stream", required: KNOWN, is_known: true, streams: Some(1), ..ROOT },
    Case { name: "root, known path, 4 streams", required: KNOWN, is_known: true, streams: Some(4), ..ROOT },
    Case { name: "root, known path, 16 streams", required: KNOWN, is_known: true, streams: Some(16), ..ROOT },
    Case { name: "100 Mbit/s, 80 ms, user", ..CONTINENT },
    Case { name: "100 Mbit/s, 80 ms, root", ..as_root(CONTINENT) },
    Case { name: "100 Mbit/s, 80 ms, loss 1e-3, user", loss: 1e-3, ..CONTINENT },
    Case { name: "100 Mbit/s, 80 ms, loss 1e-3, root", loss: 1e-3, ..as_root(CONTINENT) },
    Case { name: "300 Mbit/s, 500 ms, user", ..SATELLITE },
    Case { name: "300 Mbit/s, 500 ms, root", ..as_root(SATELLITE) },
    Case { name: "LAN without delay, user", ..LAN },
    Case { name: "LAN without delay, root", ..as_root(LAN) },
    Case { name: "10 Gbit/s, 1 ms, user", ..TEN_GIGABIT },
    Case { name: "10 Gbit/s, 1 ms, root", ..as_root(TEN_GIGABIT) },
    by_hand("streams 1, ring 32 MiB, user", 1, 32),
    by_hand("streams 1, ring 256 MiB, user", 1, 256),
    by_hand("streams 4, ring 32 MiB, user", 4, 32),
    by_hand("streams 16, ring 256 MiB, user", 16, 256),
    by_hand("streams 64, ring 32 MiB, user", 64, 32),
    by_hand("streams 64, ring 256 MiB, user", 64, 256),
    as_root(by_hand("streams 1, ring 32 MiB, root", 1, 32)),
    as_root(by_hand("streams 1, ring 256 MiB, root", 1, 256)),
    as_root(by_hand("streams 4, ring 32 MiB, root", 4, 32)),
    as_root(by_hand("streams 16, ring 256 MiB, root", 16, 256)),
    as_root(by_hand("streams 64, ring 32 MiB, root", 64, 32)),
    as_root(by_hand("streams 64, ring 256 MiB, root", 64, 256)),
    Case { far_account: Account::Root, ..by_hand("streams 1, ring 32 MiB, user to root", 1, 32) },
    Case { far_account: Account::Root, ..by_hand("streams 64, ring 256 MiB, user to root", 64, 256) },
    Case { account: Account::Root, ..by_hand("streams 1, ring 32 MiB, root to user", 1, 32) },
    Case { account: Account::Root, ..by_hand("streams 64, ring 256 MiB, root to user", 64, 256) },
    Case { name: "pauses of 10 ms, 8 a second, user", pauses: Some(SHORT_PAUSES), ..PAUSED },
    Case { name: "pauses of 10 ms, 8 a second, root", pauses: Some(SHORT_PAUSES), ..as_root(PAUSED) },
    Case { name: "pauses of 30 ms, 1 a second, user", pauses: Some(LONG_PAUSES), ..PAUSED },
    Case { name: "pauses of 30 ms, 1 a second, root", pauses: Some(LONG_PAUSES), ..as_root(PAUSED) },
];

/// All rows of the table of paths that lose packets.
pub(super) const ALL_LOSSY: [Case; 22] = [
    Case { name: "auto, loss 0", required: "≤ 22 s", ..STOCK },
    Case { name: "auto, loss 1e-4", required: "≤ 22 s", loss: 1e-4, ..LOSSY },
    Case { name: "auto, loss 1e-3", required: "≤ 22.5 s", loss: 1e-3, ..LOSSY },
    Case { name: "auto, loss 1e-2", required: "≤ 23.5 s", loss: 1e-2, ..LOSSY },
    Case { name: "auto, loss 5e-2", required: "≤ 28 s", loss: 5e-2, ..LOSSY },
    Case { name: "auto, loss 1e-1", loss: 1e-1, ..LOSSY },
    Case { name: "auto, bursts of 20, 1e-2", required: "≤ 28 s", loss: 1e-2, burst: BURST, ..LOSSY },
    Case { name: "auto, jitter 10 ms, loss 1e-2", loss: 1e-2, jitter: Span::from_millis(10), ..LOSSY },
    Case { name: "auto, loss 1e-2, known path", loss: 1e-2, is_known: true, ..LOSSY },
    Case { name: "auto, loss 1e-2, pulled", loss: 1e-2, pulls: true, ..LOSSY },
    Case { name: "direct, loss 1e-3", loss: 1e-3, via: Some("direct"), ..LOSSY },
    Case { name: "direct, loss 1e-2", loss: 1e-2, via: Some("direct"), ..LOSSY },
    Case { name: "datagrams, loss 0", ..OVER_DATAGRAMS },
    Case { name: "datagrams, loss 1e-4", loss: 1e-4, ..OVER_DATAGRAMS },
    Case { name: "datagrams, loss 1e-3", required: "≤ 22.5 s", loss: 1e-3, ..OVER_DATAGRAMS },
    Case { name: "datagrams, loss 1e-2", required: "≤ 23.5 s", loss: 1e-2, ..OVER_DATAGRAMS },
    Case { name: "datagrams, loss 5e-2", required: "≤ 28 s", loss: 5e-2, ..OVER_DATAGRAMS },
    Case { name: "datagrams, bursts of 20, 1e-2", required: "≤ 28 s", loss: 1e-2, burst: BURST, ..OVER_DATAGRAMS },
    Case { name: "datagrams, 1 s, loss 5e-2", loss: 5e-2, ..SECOND },
    Case { name: "root, loss 1e-3", required: "", loss: 1e-3, ..ROOT },
    Case { name: "root, loss 1e-2", required: "≤ 23.5 s", loss: 1e-2, ..ROOT },
    Case { name: "root, loss 5e-2", required: "≤ 28 s", loss: 5e-2, ..ROOT },
];

impl Case {
    /// The copy of this account, for the tables of copies beside others: it runs in a lab that
    /// these have made. `streams`: number of its connections; `None`: as icdc chooses.
    pub(super) fn beside_another(account: Account, streams: Option<u8>) -> Self {
        Self { account, far_account: account, streams, ..STOCK }
    }
}
