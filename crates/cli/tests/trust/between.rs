//! Copies between two other hosts: who may what, and that the data goes straight from one to the
//! other.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use icdc_trust::{FileHash, FileSignature, Identity};

use crate::support;
use crate::support::daemon::Daemon;
use crate::support::network::{Host, Pair};
use crate::support::{
    Ended, KIB, MIB, Shape, Signal, Site, Start, assert_no_leftovers, assert_same, data, has_program, skip,
};

/// Kinds of far ends: by ssh, or a daemon.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Ssh,
    Daemon,
}

const KINDS: [(Kind, Kind); 4] =
    [(Kind::Ssh, Kind::Ssh), (Kind::Ssh, Kind::Daemon), (Kind::Daemon, Kind::Ssh), (Kind::Daemon, Kind::Daemon)];

/// A near host, and a far one that stands for two.
struct Scene {
    site: Site,
    hosts: Pair,
    from: Daemon,
    to: Daemon,
}

impl Scene {
    fn new(from_rights: &str, to_rights: &str) -> Option<Self> {
        let hosts = Pair::new()?;
        let site = Site::new();
        let (source, target) = (site.directory("from-root"), site.directory("to-root"));
        let grant = |root: &PathBuf, rights: &str| format!("root={},rights={rights}", root.display());
        let from = Daemon::on(&hosts.far, &site, "from", &grant(&source, from_rights));
        let to = Daemon::on(&hosts.far, &site, "to", &grant(&target, to_rights));
        Some(Self { site, hosts, from, to })
    }

    fn address(&self, kind: Kind, daemon: &Daemon, root: &str, path: &str) -> OsString {
        match kind {
            Kind::Ssh => self.site.on_host(self.hosts.far.address(), Path::new(root).join(path)),
            Kind::Daemon => daemon.location(path).into(),
        }
    }

    fn command(&self, options: &[&str], (from, to): (Kind, Kind), source: &str, target: &str) -> std::process::Command {
        let mut command = self.site.copy(&["--ssh", &self.site.ssh_to(&self.hosts.far)]);
        command.args(options);
        command.arg(self.address(from, &self.from, "from-root", source));
        command.arg(self.address(to, &self.to, "to-root", target));
        self.hosts.near.run(&command)
    }

    fn copy(&self, kinds: (Kind, Kind), source: &str, target: &str) -> Ended {
        self.command(&[], kinds, source, target).run()
    }

    /// Bytes that have passed the near host's cable in both directions.
    fn cable_bytes(&self) -> u64 {
        ["rx_bytes", "tx_bytes"].into_iter().map(|name| counter(&self.hosts.near, name)).sum()
    }
}

fn counter(host: &Host, name: &str) -> u64 {
    let path = format!("/sys/class/net/eth0/statistics/{name}");
    support::succeed(host.command("cat").arg(path)).trim().parse().unwrap()
}

#[test]
fn data_goes_straight_from_one_to_the_other() {
    let Some(scene) = Scene::new("r", "w") else { return };
    let shape = Shape { large: vec![20 * MIB, 300 * KIB], ..Shape::default() };
    let tree = data::tree(&scene.site.path("from-root/tree"), 1, &shape);
    for kinds in KINDS {
        let before = scene.cable_bytes();
        let ended = scene.copy(kinds, "tree", "copy").expect_code(0);
        let passed = scene.cable_bytes() - before;
        let copy = scene.site.path("to-root/copy");
        assert_same(&tree, &copy);
        assert!(passed < 2 * MIB, "{kinds:?}: {passed} bytes came by here");
        assert_eq!(ended.number("bytes"), data::size(&tree), "{ended}");
        assert!(ended.number("bytes_sent") > 20 * MIB, "{ended}");
        assert_eq!(ended.summary()["verified"], true, "{ended}");
        assert_eq!(ended.all("connected").count(), 1, "{ended}");
        assert!(ended.all("item").filter(|event| event["outcome"] == "published").count() > 100, "{ended}");
        fs::remove_dir_all(copy).unwrap();
    }
    assert_no_leftovers(scene.site.root());
}

/// The end that has the data signs, and this host, which has none of it, checks and writes.
#[test]
fn the_receiving_end_signs_a_receipt_for_the_host_that_asks() {
    let Some(scene) = Scene::new("r", "w") else { return };
    let site = &scene.site;
    let tree = data::tree(&site.path("from-root/tree"), 1, &Shape { large: vec![9 * MIB], ..Shape::default() });
    if !site.path("home/.config/icdc/identity").exists() {
        support::succeed(&mut site.icdc(&["keygen"]));
    }
    let receipt = site.path("receipt");
    for kinds in KINDS {
        let ended = scene.command(&["--receipt", "receipt"], kinds, "tree", "copy").run().expect_code(0);
        let copy = site.path("to-root/copy");
        assert_same(&tree, &copy);
        let identity = match kinds.1 {
            Kind::Daemon => "to/identity",
            Kind::Ssh => "home/.config/icdc/identity",
        };
        let key = Identity::load(&site.path(identity)).unwrap().public();
        let told = |notice: &serde_json::Value| notice["text"].as_str().unwrap().contains(&key.ssh_fingerprint());
        assert!(ended.all("notice").any(told), "{kinds:?}: {ended}");
        let text = fs::read(&receipt).unwrap();
        let mut hash = FileHash::default();
        hash.update(&text);
        let signature = fs::read(site.path("receipt.sig")).unwrap();
        let signature = FileSignature::parse(&signature, "icdc-receipt").unwrap();
        assert!(signature.key == key && signature.is_of("icdc-receipt", hash), "{kinds:?}");
        let text = String::from_utf8(text).unwrap();
        let items = support::succeed(std::process::Command::new("find").arg(&tree).args(["-printf", "x"])).len();
        assert!(text.contains(&format!("\nitems: {items}\n")), "{kinds:?}: {items} {text}");
        site.icdc(&["verify", "--list", "receipt"]).arg(site.path("to-root")).run().expect_code(0);
        for path in [&receipt, &site.path("receipt.sig")] {
            fs::remove_file(path).unwrap();
        }
        fs::remove_dir_all(copy).unwrap();
    }
    assert_no_leftovers(site.root());
}

#[test]
fn without_a_key_where_the_data_arrives_nothing_is_copied_between_two() {
    let Some(scene) = Scene::new("r", "w") else { return };
    let site = &scene.site;
    fs::write(site.path("from-root/file"), "file").unwrap();
    fs::remove_file(site.path("home/.config/icdc/identity")).unwrap();
    let ended = scene.command(&["--receipt", "receipt"], (Kind::Ssh, Kind::Ssh), "file", "copy").run().expect_code(2);
    assert!(ended.stderr.contains(scene.hosts.far.address()) && ended.stderr.contains("icdc keygen"), "{ended}");
    assert!(!site.path("to-root/copy").exists() && !site.path("receipt").exists(), "{ended}");
}

#[test]
fn a_receipt_between_two_survives_a_cut_and_is_of_everything_or_none() {
    let Some(scene) = Scene::new("r", "w") else { return };
    let site = &scene.site;
    let tree = data::tree(&site.path("from-root/tree"), 1, &Shape { large: vec![120 * MIB], ..Shape::default() });
    let kinds = (Kind::Daemon, Kind::Daemon);
    let run = scene.command(&["--receipt", "receipt", "--rate", "160mbit"], kinds, "tree", "copy").start();
    assert!(run.wait_for_bytes(40 * MIB), "it ended before");
    for session in scene.to.run().sessions() {
        let _ = rustix::process::kill_process(session, Signal::KILL);
    }
    let ended = run.finish().expect_code(0);
    assert!(ended.all("reconnecting").count() > 0, "{ended}");
    assert_same(&tree, &site.path("to-root/copy"));
    site.icdc(&["verify", "--list", "receipt"]).arg(site.path("to-root")).run().expect_code(0);

    support::succeed(std::process::Command::new("mkfifo").arg(tree.join("pipe")));
    for kinds in KINDS {
        let ended = scene.command(&["--receipt", "none"], kinds, "tree", "other").run().expect_code(1);
        assert!(ended.stderr.contains("there is no receipt") && ended.stderr.contains("pipe"), "{kinds:?}: {ended}");
        assert!(!site.path("none").exists() && !site.path("none.sig").exists(), "{kinds:?}");
    }
}

#[test]
fn a_daemon_copies_to_itself() {
    let site = Site::new();
    let root = site.directory("root");
    let daemon = Daemon::start(&site, &root, "rw");
    let tree = data::tree(&root.join("tree"), 1, &Shape { large: vec![5 * MIB], ..Shape::default() });
    for streams in ["1", "3"] {
        let mut command = site.copy(&["--streams", streams]);
        command.args([daemon.location("tree"), daemon.location("copy")]).run().expect_code(0);
        assert_same(&tree, &root.join("copy"));
        fs::remove_dir_all(root.join("copy")).unwrap();
    }
    assert_no_leftovers(&root);
}

#[test]
fn rights_and_roots_hold_between_daemons() {
    let Some(scene) = Scene::new("w", "r") else { return };
    fs::write(scene.site.path("from-root/file"), "file").unwrap();
    for kinds in &KINDS[1..] {
        let ended = scene.copy(*kinds, "file", "file").expect_code(3);
        assert!(ended.stderr.contains("may not"), "{kinds:?}: {ended}");
        assert!(!scene.site.path("to-root/file").exists());
    }
    drop(scene);
    let Some(scene) = Scene::new("r", "w") else { return };
    fs::write(scene.site.path("from-root/file"), "file").unwrap();
    fs::write(scene.site.path("secret"), "secret").unwrap();
    for (kinds, source, target) in [
        ((Kind::Daemon, Kind::Ssh), "../secret", "stolen"),
        ((Kind::Daemon, Kind::Daemon), "../secret", "stolen"),
        ((Kind::Ssh, Kind::Daemon), "file", "../planted"),
        ((Kind::Daemon, Kind::Daemon), "file", "../planted"),
    ] {
        let ended = scene.copy(kinds, source, target);
        assert_eq!(ended.code, Some(2), "{kinds:?} {source} {target}: {ended}");
        assert!(!scene.site.path("to-root/stolen").exists() && !scene.site.path("planted").exists(), "{kinds:?}");
    }
}

#[test]
fn what_fails_is_named_as_in_any_copy() {
    let Some(scene) = Scene::new("r", "w") else { return };
    fs::create_dir(scene.site.path("from-root/tree")).unwrap();
    fs::write(scene.site.path("from-root/tree/file"), "file").unwrap();
    support::succeed(std::process::Command::new("mkfifo").arg(scene.site.path("from-root/tree/pipe")));
    for kinds in KINDS {
        let ended = scene.copy(kinds, "tree", "copy").expect_code(1);
        assert!(ended.stderr.contains("tree/pipe"), "{kinds:?}: {ended}");
        assert_eq!(ended.number("errors"), 1, "{ended}");
        assert_eq!(fs::read(scene.site.path("to-root/copy/file")).unwrap(), b"file");
        let ended = scene.copy(kinds, "nothing", "copy2").expect_code(2);
        assert!(ended.stderr.contains("nothing"), "{kinds:?}: {ended}");
        let ended = scene.command(&["--dry-run"], kinds, "tree", "copy3").run();
        assert_eq!(ended.code, Some(1), "the pipe is named: {ended}");
        assert_eq!(ended.all("would_send").count(), 1, "{kinds:?}: {ended}");
        assert!(!scene.site.path("to-root/copy3").exists());
    }
}

#[test]
fn an_interrupt_reaches_both_and_the_same_command_goes_on() {
    let Some(scene) = Scene::new("r", "w") else { return };
    data::file(&scene.site.path("from-root/file"), 160 * MIB, 1);
    for kinds in [(Kind::Ssh, Kind::Ssh), (Kind::Daemon, Kind::Daemon)] {
        let run = scene.command(&["--rate", "600mbit"], kinds, "file", "copy").start();
        assert!(run.wait_for_bytes(100 * MIB), "{kinds:?}: it ended before");
        run.signal(Signal::INT);
        run.finish().expect_code(4);
        assert!(!scene.site.path("to-root/copy").exists());
        let ended = scene.copy(kinds, "file", "copy").expect_code(0);
        assert!(ended.number("resumed_bytes") > 0, "{kinds:?}: {ended}");
        assert!(ended.number("bytes_sent") < 160 * MIB, "{kinds:?}: {ended}");
        assert_same(&scene.site.path("from-root/file"), &scene.site.path("to-root/copy"));
        fs::remove_file(scene.site.path("to-root/copy")).unwrap();
    }
    assert_no_leftovers(scene.site.root());
}

/// The key that the sending end was let in by allows the first session of the run, and those that go on with it.
#[test]
fn a_run_whose_receiving_session_is_killed_goes_on_in_the_place_that_it_had() {
    let Some(scene) = Scene::new("r", "w") else { return };
    let tree = data::tree(&scene.site.path("from-root/tree"), 1, &Shape { large: vec![120 * MIB], ..Shape::default() });
    let kinds = (Kind::Daemon, Kind::Daemon);
    let run = scene.command(&["--rate", "160mbit"], kinds, "tree", "copy").start();
    assert!(run.wait_for_bytes(40 * MIB), "it ended before");
    let sessions = scene.to.run().sessions();
    assert!(!sessions.is_empty());
    for session in sessions {
        let _ = rustix::process::kill_process(session, Signal::KILL);
    }
    let ended = run.finish().expect_code(0);
    assert!(ended.all("reconnecting").count() > 0, "{ended}");
    assert_same(&tree, &scene.site.path("to-root/copy"));
    assert_no_leftovers(scene.site.root());
}

#[test]
fn where_a_firewall_keeps_connections_from_the_receiving_end_it_connects_to_the_sending_one() {
    let Some(hosts) = Pair::new() else { return };
    if !has_program("nft") {
        return skip("a firewall needs nftables");
    }
    let site = Site::new();
    // Each host is reached from here by a name of its own.
    let ssh = site.program(
        "ssh-both",
        &format!(
            "case $1 in {near}) on={first};; *) on={second};; esac\nshift\nexec ip netns exec $on sh -c \"$*\"",
            near = hosts.near.address(),
            first = hosts.near.name(),
            second = hosts.far.name()
        ),
    );
    let one_way = "table inet test { chain input { type filter hook input priority 0; \
         iifname \"eth0\" tcp flags & (syn|ack) == syn drop; }; }";
    support::succeed(hosts.far.command("nft").arg(one_way));
    let tree = data::tree(&site.path("tree"), 1, &Shape { large: vec![20 * MIB, 300 * KIB], ..Shape::default() });
    let copy = |options: &[&str], name: &str| {
        let mut command = site.copy(&["--ssh", &ssh]);
        command.args(options).arg(site.on_host(hosts.near.address(), "tree"));
        command.arg(site.on_host(hosts.far.address(), name)).run()
    };
    for (options, name) in [(&["--streams", "3"][..], "auto"), (&["--via", "back"], "back")] {
        let ended = copy(options, name).expect_code(0);
        assert_eq!(ended.all("route").next().unwrap()["via"], "back", "{ended}");
        assert_same(&tree, &site.path(name));
    }
    let ended = copy(&["--via", "direct"], "direct").expect_code(3);
    assert!(ended.stderr.contains("cannot reach"), "{ended}");
    // And if neither gets through.
    support::succeed(hosts.near.command("nft").arg(one_way));
    let ended = copy(&[], "neither").expect_code(3);
    assert!(ended.stderr.contains("no route between") && ended.stderr.contains("--port"), "{ended}");
    assert_no_leftovers(site.root());
}
