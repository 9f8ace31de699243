//! A path that loses large packets and does not say so.

use crate::support::daemon::Daemon;
use crate::support::network::{Host, Pair};
use crate::support::{MIB, Site, Start, data, has_program, skip};

/// Only what is short arrives, as behind a tunnel whose replies are filtered.
const NARROW: &str =
    "table inet test { chain input { type filter hook input priority 0; iif != lo meta length > 1300 drop; }; }";

fn large_packets_vanish(on: impl Fn(&Pair) -> &Host) {
    let Some(pair) = Pair::new() else { return };
    if !has_program("nft") {
        return skip("a firewall needs nftables");
    }
    let site = Site::new();
    data::file(&site.path("source"), MIB, 50);
    let root = site.directory("root");
    let daemon = Daemon::on(&pair.far, &site, "daemon", &format!("root=\"{}\",rights=rw", root.display()));
    on(&pair).firewall(NARROW);
    let mut copy = site.copy(&["--retry-for", "1s"]);
    copy.arg(site.path("source")).arg(daemon.location("copy"));
    let copied = pair.near.run(&copy).run().expect_code(3);
    assert!(copied.stderr.contains("only small packets get through"), "{copied}");
    assert!(copied.stderr.contains("net.ipv4.tcp_mtu_probing=1"), "{copied}");
    let doctor = pair.near.run(&site.icdc(&["doctor", &daemon.location("")])).run();
    assert!(doctor.text.contains("MTU black hole"), "{doctor}");
}

#[test]
fn large_packets_that_vanish_on_the_way_out_are_named() {
    large_packets_vanish(|pair| &pair.far);
}

#[test]
fn large_packets_that_vanish_on_the_way_back_are_named() {
    large_packets_vanish(|pair| &pair.near);
}
