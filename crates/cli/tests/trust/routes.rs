//! By which route data reaches a far end that ssh starts: its port, or ssh where a firewall passes
//! nothing else.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::sshd::Sshd;
use crate::support::daemon::free_port;
use crate::support::network::Pair;
use crate::support::process::eventually;
use crate::support::{
    Ended, HERE, MIB, Shape, Site, Start, assert_no_leftovers, assert_same, data, has_program, skip, succeed,
};

/// Only connections to port 22 are let in.
const FIREWALL: &str = "table inet test { chain input { type filter hook input priority 0; \
     iifname \"eth0\" tcp dport != 22 drop; }; }";

fn shape() -> Shape {
    Shape { large: vec![30 * MIB, 9 * MIB], small: 40, ..Shape::default() }
}

/// Asserts that the run's data went by ssh, over so many connections at most: a run may end before
/// all are made.
#[track_caller]
fn by_ssh(ended: &Ended, most: usize) {
    let route = ended.all("route").next().unwrap_or_else(|| panic!("no route is told: {ended}"));
    assert_eq!(route["via"], "ssh", "{ended}");
    let peers: Vec<&str> = ended.all("connected").map(|event| event["peer"].as_str().unwrap()).collect();
    assert!((1..=most).contains(&peers.len()), "{ended}");
    assert!(peers.iter().all(|peer| peer.ends_with(" by ssh")), "{peers:?}");
}

/// Pushes and pulls a tree with these options.
#[track_caller]
fn both_ways(site: &Site, options: &[&str], far: impl Fn(&str) -> std::ffi::OsString, check: impl Fn(&Ended)) {
    let tree = data::tree(&site.path("tree"), 5, &shape());
    for (source, destination, arrived) in
        [("tree".into(), far("pushed"), "pushed"), (far("tree"), "pulled".into(), "pulled")]
    {
        let ended = site.copy(options).arg(source).arg(destination).run().expect_code(0);
        check(&ended);
        assert_same(&tree, &site.path(arrived));
    }
    assert_no_leftovers(site.root());
}

#[test]
fn data_goes_through_ssh_where_the_user_says_so() {
    let site = Site::new();
    let options = ["--ssh", &site.ssh(), "--via", "ssh", "--streams", "3", "--rate", "200mbit"];
    both_ways(
        &site,
        &options,
        |name| site.by_ssh(name),
        |ended| {
            by_ssh(ended, 3);
            assert_eq!(ended.all("connected").count(), 3, "{ended}");
            let waits = ended.summary()["limited_by"]["destination_disk"].as_f64();
            assert!(waits.is_none_or(|share| share < 0.5), "ssh, not a disk: {ended}");
        },
    );
}

#[test]
fn data_goes_directly_where_that_works() {
    let site = Site::new();
    let check = |ended: &Ended| {
        let routes: Vec<&str> = ended.all("route").map(|event| event["via"].as_str().unwrap()).collect();
        assert_eq!(routes, ["direct"], "{ended}");
    };
    both_ways(&site, &["--ssh", &site.ssh()], |name| site.by_ssh(name), check);
}

#[test]
fn where_a_firewall_passes_only_ssh_data_goes_through_ssh() {
    let site = Site::new();
    let Some((hosts, sshd)) = Sshd::beyond_firewalls(&site) else { return };
    hosts.far.firewall(FIREWALL);
    let tree = data::tree(&site.path("tree"), 5, &shape());
    let far = |name: &str| format!("far:{}", site.path(name).display());
    for (source, destination, arrived) in
        [("tree".to_owned(), far("pushed"), "pushed"), (far("tree"), "pulled".to_owned(), "pulled")]
    {
        let copy = site.copy(&["--ssh", &sshd.command, "--streams", "4", &source, &destination]);
        let ended = hosts.near.run(&copy).run().expect_code(0);
        by_ssh(&ended, 4);
        let reason = reason(&ended);
        assert!(reason.contains("did not answer") && reason.contains("; back to this host: "), "{reason}");
        assert_same(&tree, &site.path(arrived));
        forget_routes(&site);
    }
    // What the search for the route took is told.
    data::file(&site.path("file"), 4 * MIB, 3);
    let copy = site.copy(&["--ssh", &sshd.command, "--streams", "1", "--rate", "16mbit", "file", &far("file-pushed")]);
    let ended = hosts.near.run(&copy).run().expect_code(0);
    // A second at least, of three.
    let start = ended.summary()["limited_by"]["start"].as_f64();
    assert!(start.is_some_and(|share| share > 0.15), "{ended}");
    // The user may forbid it.
    let copy = site.copy(&["--ssh", &sshd.command, "--via", "direct", "tree", &far("none")]);
    let ended = hosts.near.run(&copy).run().expect_code(3);
    let words = ["no answer", "within 15s", "--port", "or leave --via out"];
    assert!(words.iter().all(|word| ended.stderr.contains(word)), "{ended}");
    assert_no_leftovers(site.root());
}

/// Reason of the route that the data took.
fn reason(ended: &Ended) -> String {
    ended.all("route").next().unwrap()["reason"].as_str().unwrap().to_owned()
}

/// Removes what is remembered of routes.
fn forget_routes(site: &Site) {
    site.icdc(&["doctor", "--paths", "--clear"]).run().expect_code(0);
}

/// Hosts that are remembered, each with its route.
fn known_routes(site: &Site) -> Vec<String> {
    let ended = site.icdc(&["doctor", "--paths", "--json"]).run().expect_code(0);
    let routes = ended.events[0]["routes"].as_array().unwrap().iter();
    routes.map(|route| format!("{} {}", route["host"].as_str().unwrap(), route["via"].as_str().unwrap())).collect()
}

#[test]
fn the_route_that_has_worked_is_tried_first_and_a_better_one_is_still_found() {
    let site = Site::new();
    let Some((hosts, sshd)) = Sshd::beyond_firewalls(&site) else { return };
    data::file(&site.path("file"), 9 * MIB, 3);
    let destination = format!("far:{}", site.path("copy").display());
    let copy = || {
        let copy = site.copy(&["--ssh", &sshd.command, "--streams", "3", "--no-resume", "file", &destination]);
        let ended = hosts.near.run(&copy).run().expect_code(0);
        assert_same(&site.path("file"), &site.path("copy"));
        fs::remove_file(site.path("copy")).unwrap();
        let route = ended.all("route").next().unwrap()["via"].as_str().unwrap().to_owned();
        (route, reason(&ended))
    };
    hosts.far.firewall(FIREWALL);
    let (route, why) = copy();
    assert!(route == "ssh" && why.contains("did not answer"), "{route}: {why}");
    assert_eq!(known_routes(&site), ["far ssh"]);
    assert_eq!(copy(), ("ssh".to_owned(), "it worked last time".to_owned()));
    hosts.far.firewall("delete table inet test");
    assert_eq!(copy(), ("direct".to_owned(), String::new()));
    assert_eq!(known_routes(&site), ["far direct"]);
    hosts.far.firewall(FIREWALL);
    let (route, why) = copy();
    assert!(route == "ssh" && why.contains("did not answer"), "{route}: {why}");
    site.icdc(&["doctor", "--paths", "--clear", "far"]).run().expect_code(0);
    assert_eq!(known_routes(&site), Vec::<String>::new());
    assert_no_leftovers(site.root());
}

#[test]
fn a_server_that_lets_few_log_in_at_once_is_respected() {
    let site = Site::new();
    let Some(sshd) = Sshd::start(&site, "MaxStartups 3\nMaxSessions 1\n") else { return };
    let options = ["--ssh", &sshd.command, "--via", "ssh", "--streams", "8"];
    let far = |name: &str| format!("far:{}", site.path(name).display()).into();
    both_ways(&site, &options, far, |ended| by_ssh(ended, 8));
}

#[test]
fn the_connections_that_ssh_makes_are_seen_and_paced() {
    let site = Site::new();
    let Some(sshd) = Sshd::start(&site, "") else { return };
    data::file(&site.path("file"), 24 * MIB, 3);
    let mut command =
        site.copy(&["--ssh", &sshd.command, "--via", "ssh", "--streams", "3", "--rate", "100mbit", "file"]);
    let ended = command.arg(format!("far:{}", site.path("copy").display())).run().expect_code(0);
    by_ssh(&ended, 3);
    let of_kernel = |event: &serde_json::Value| event["rtt_us"] != 0 && event["pacing_bps"] != 0;
    assert!(ended.all("progress").any(of_kernel), "{ended}");
    let seconds = ended.summary()["seconds"].as_f64().unwrap();
    let rate = ended.summary()["bytes"].as_f64().unwrap() * 8.0 / seconds;
    assert!(rate < 130e6, "more than was allowed: {rate}");
    assert_same(&site.path("file"), &site.path("copy"));
}

#[test]
fn data_goes_through_jump_hosts() {
    let site = Site::new();
    let Some(sshd) = Sshd::start(&site, "") else { return };
    let configuration = site.path("sshd/ssh_config");
    let far = fs::read_to_string(&configuration).unwrap();
    let jump = far.replace("Host far\n", "Host jump\n");
    fs::write(&configuration, format!("{far} ProxyJump jump\n{jump}")).unwrap();
    let options = ["--ssh", &sshd.command, "--via", "ssh", "--streams", "3"];
    let far = |name: &str| format!("far:{}", site.path(name).display()).into();
    both_ways(&site, &options, far, |ended| by_ssh(ended, 3));
}

/// A program named as OpenSSH's own, which runs commands here if `rule`, a shell's condition over
/// its arguments in `$*`, holds.
fn picky_ssh(site: &Site, rule: &str) -> String {
    site.directory("bin");
    let body = format!(
        "if [ \"$1\" = -G ]; then echo hostname {HERE}; exit; fi\n\
         echo \"$*\" >>'{log}'\n\
         if ! {{ {rule}; }}; then echo 'far: Permission denied (publickey,password).' >&2; exit 255; fi\n\
         while [ \"$1\" != {HERE} ]; do shift; done\nshift\nexec sh -c \"$*\"",
        log = site.path("logins").display()
    );
    site.program("bin/ssh", &body)
}

#[test]
fn where_each_login_asks_one_connection_carries_the_data_and_the_reason_is_told() {
    let site = Site::new();
    let ssh = picky_ssh(&site, "case \"$*\" in *BatchMode=yes*) false;; esac");
    let options = ["--ssh", &ssh, "--via", "ssh", "--streams", "6"];
    both_ways(
        &site,
        &options,
        |name| site.by_ssh(name),
        |ended| {
            by_ssh(ended, 1);
            assert!(ended.stderr.contains("answered by hand") && ended.stderr.contains("ControlMaster"), "{ended}");
        },
    );
}

#[test]
fn a_login_that_is_shared_is_used_where_another_would_ask() {
    let site = Site::new();
    let ssh = picky_ssh(&site, "case \"$*\" in *ControlPath=none*) false;; esac");
    let options = ["--ssh", &ssh, "--via", "ssh", "--streams", "4"];
    both_ways(&site, &options, |name| site.by_ssh(name), |ended| by_ssh(ended, 4));
    let logins = fs::read_to_string(site.path("logins")).unwrap();
    assert_eq!(logins.matches("ControlPath=none").count(), 2, "asked once in each run: {logins}");
}

#[test]
fn an_ssh_that_dies_costs_its_connection_only() {
    let site = Site::new();
    let file = site.path("file");
    data::file(&file, 48 * MIB, 3);
    let ssh = site
        .program("ssh-noted", &format!("shift\necho $$ >>'{}'\nexec sh -c \"exec $*\"", site.path("pids").display()));
    let mut command = site.copy(&["--ssh", &ssh, "--via", "ssh", "--streams", "4", "--rate", "160mbit", "file"]);
    let run = command.arg(site.by_ssh("copy")).start();
    assert!(run.wait_for_more(0, 4, |event| event["type"] == "connected"), "{}", run.finish());
    assert!(run.wait_for_bytes(8 * MIB), "{}", run.finish());
    let pids = fs::read_to_string(site.path("pids")).unwrap();
    let last = pids.lines().last().unwrap().to_owned();
    succeed(Command::new("sh").args(["-c", &format!("kill -9 {last}")]));
    let ended = run.finish().expect_code(0);
    assert!(ended.all("reconnecting").next().is_none(), "the session went on: {ended}");
    let lost =
        ended.all("notice").filter(|event| event["text"].as_str().unwrap().ends_with("the others carry the rest"));
    assert_eq!(lost.count(), 1, "{ended}");
    assert_same(&file, &site.path("copy"));
    assert_no_leftovers(site.root());
}

#[test]
fn logins_that_failed_in_an_outage_are_tried_again_after_it() {
    let site = Site::new();
    let file = site.path("file");
    data::file(&file, 48 * MIB, 3);
    let (pids, down) = (site.path("pids"), site.path("down"));
    // The first ssh, which carries no data, outlasts the outage.
    let body = format!(
        "shift\nif [ -e '{down}' ]; then touch '{seen}'; echo 'Connection refused' >&2; exit 255; fi\n\
         echo $$ >>'{pids}'\nexec sh -c \"exec $*\"",
        down = down.display(),
        seen = site.path("seen").display(),
        pids = pids.display()
    );
    let ssh = site.program("ssh-down", &body);
    let mut command =
        site.copy(&["--ssh", &ssh, "--via", "ssh", "--streams", "1", "--rate", "80mbit", "--retry-for", "60s", "file"]);
    let run = command.arg(site.by_ssh("copy")).start();
    assert!(run.wait_for_bytes(8 * MIB), "{}", run.finish());
    fs::write(&down, "").unwrap();
    let last = fs::read_to_string(&pids).unwrap().lines().last().unwrap().to_owned();
    succeed(Command::new("sh").args(["-c", &format!("kill -9 {last}")]));
    // Twice: the first attempt of a session has then failed for good.
    assert!(run.wait_for_more(0, 2, |event| event["type"] == "reconnecting"), "{}", run.finish());
    assert!(site.path("seen").exists());
    fs::remove_file(&down).unwrap();
    let ended = run.finish().expect_code(0);
    assert_same(&file, &site.path("copy"));
    assert!(ended.all("reconnecting").count() >= 2, "{ended}");
}

#[test]
fn nothing_stays_behind_when_the_user_stops() {
    let site = Site::new();
    data::file(&site.path("file"), 48 * MIB, 3);
    let pids = site.path("pids");
    let ssh = site.program("ssh-noted", &format!("shift\necho $$ >>'{}'\nexec sh -c \"exec $*\"", pids.display()));
    let mut command = site.copy(&["--ssh", &ssh, "--via", "ssh", "--streams", "4", "--rate", "40mbit", "file"]);
    let run = command.arg(site.by_ssh("copy")).start();
    assert!(run.wait_for_more(0, 4, |event| event["type"] == "connected"), "{}", run.finish());
    assert!(run.wait_for_bytes(4 * MIB), "{}", run.finish());
    run.signal(crate::support::Signal::INT);
    run.finish().expect_code(4);
    let pids = fs::read_to_string(pids).unwrap();
    let gone = |pid: &str| !std::path::Path::new(&format!("/proc/{pid}")).exists();
    assert!(eventually(|| pids.lines().all(gone)), "of {pids} some still run");
    // What has arrived is used.
    let mut command = site.copy(&["--ssh", &site.ssh(), "--via", "ssh", "file"]);
    let ended = command.arg(site.by_ssh("copy")).run().expect_code(0);
    assert!(ended.resumed() > 0, "{ended}");
    assert_same(&site.path("file"), &site.path("copy"));
}

/// A rule for [`picky_ssh`] that lets the first login without a question through, and makes the
/// others do this.
fn others(site: &Site, what: &str) -> String {
    let seen = site.path("seen");
    format!("case \"$*\" in *BatchMode=yes*) mkdir '{}' 2>/dev/null || {{ {what}; }};; esac", seen.display())
}

#[test]
fn a_run_does_not_wait_for_logins_that_are_pending_when_it_ends() {
    let site = Site::new();
    let tree = data::tree(&site.path("tree"), 5, &shape());
    let pids = site.path("pids");
    let ssh = picky_ssh(&site, &others(&site, &format!("echo $$ >>'{}'; exec sleep 300", pids.display())));
    // Nine log in at a time, the others wait for their turn.
    let options = ["--ssh", &ssh, "--via", "ssh", "--streams", "24", "tree"];
    let begun = Instant::now();
    let ended = site.copy(&options).arg(site.by_ssh("pushed")).run().expect_code(0);
    assert!(begun.elapsed() < Duration::from_secs(60), "it took {:?}", begun.elapsed());
    assert!(!ended.stderr.contains("connections were made"), "nothing has failed: {ended}");
    assert_same(&tree, &site.path("pushed"));
    let pids = fs::read_to_string(pids).unwrap();
    let gone = |pid: &str| !std::path::Path::new(&format!("/proc/{pid}")).exists();
    assert!(pids.lines().count() <= 9 && eventually(|| pids.lines().all(gone)), "of {pids} some still run");
}

#[test]
fn further_logins_that_fail_are_told_in_one_line() {
    let site = Site::new();
    data::file(&site.path("file"), 24 * MIB, 3);
    for (what, reason, most) in [
        ("false", "Permission denied", 2 * 9 + 2),
        ("echo 'Connection reset by peer' >&2; exit 255", "Connection reset", 24 + 9 + 2),
    ] {
        let ssh = picky_ssh(&site, &others(&site, what));
        let mut command = site.copy(&["--ssh", &ssh, "--via", "ssh", "--streams", "20", "--rate", "8mbit", "file"]);
        let run = command.arg(site.by_ssh("copy")).start();
        assert!(run.wait_for_words("connections were made"), "{}", run.finish());
        run.signal(crate::support::Signal::INT);
        let ended = run.finish().expect_code(4);
        assert_eq!(ended.stderr.matches(reason).count(), 1, "{ended}");
        // A login that is shared has room for eight.
        assert!(
            ["20", "8"].iter().any(|all| ended.stderr.contains(&format!("1 of {all} connections were made: "))),
            "{ended}"
        );
        let logins = fs::read_to_string(site.path("logins")).unwrap().lines().count();
        assert!(logins <= most, "{logins} logins");
        fs::remove_dir(site.path("seen")).unwrap();
        fs::remove_file(site.path("logins")).unwrap();
    }
}

#[test]
fn no_login_does_anything_else_that_the_configuration_asks_of_it() {
    let site = Site::new();
    let Some(sshd) = Sshd::start(&site, "") else { return };
    let configuration = site.path("sshd/ssh_config");
    let lines = format!(
        "{} ExitOnForwardFailure yes\n LocalForward {HERE}:{} {HERE}:9\n PermitLocalCommand yes\n LocalCommand echo $$ >>'{}'\n",
        fs::read_to_string(&configuration).unwrap(),
        free_port(),
        site.path("commands").display()
    );
    fs::write(&configuration, lines).unwrap();
    let options = ["--ssh", &sshd.command, "--via", "ssh", "--streams", "3", "--rate", "200mbit"];
    let far = |name: &str| format!("far:{}", site.path(name).display()).into();
    both_ways(&site, &options, far, |ended| assert_eq!(ended.all("connected").count(), 3, "{ended}"));
    assert!(!site.path("commands").exists(), "no local command has run");
}

#[test]
fn a_far_end_that_has_died_is_started_again_while_its_ssh_still_runs() {
    let site = Site::new();
    let file = site.path("file");
    data::file(&file, 48 * MIB, 3);
    let ssh = site.program("ssh-lingering", "shift\nsh -c \"$*\"\nsleep 2");
    let mut command =
        site.copy(&["--ssh", &ssh, "--via", "ssh", "--streams", "2", "--rate", "80mbit", "--retry-for", "60s", "file"]);
    let run = command.arg(site.by_ssh("copy")).start();
    assert!(run.wait_for_bytes(8 * MIB), "{}", run.finish());
    succeed(Command::new("sh").args(["-c", &format!("kill -9 {}", run.far_end().unwrap().as_raw_nonzero())]));
    let ended = run.finish().expect_code(0);
    assert_eq!(ended.all("reconnecting").count(), 1, "{ended}");
    assert_same(&file, &site.path("copy"));
    assert_no_leftovers(site.root());
}

#[test]
fn nobody_is_asked_for_a_login_while_data_goes_directly() {
    let site = Site::new();
    let Some(hosts) = Pair::new() else { return };
    if !has_program("nft") {
        return skip("a firewall needs nftables");
    }
    hosts.far.firewall(FIREWALL);
    data::file(&site.path("file"), 24 * MIB, 3);
    site.directory("bin");
    // The firewall opens when ssh begins, which then would have to ask after some time.
    let body = format!(
        "if [ \"$1\" = -G ]; then echo hostname {address}; exit; fi\n\
         case \"$*\" in *' -V') exit;; *BatchMode=yes*) ip netns exec {far} nft flush ruleset; sleep 3\n\
         echo 'Permission denied' >&2; exit 255;; esac\n\
         echo asked >>'{logins}'\nwhile [ \"$1\" != far ]; do shift; done\nshift\nexec ip netns exec {far} sh -c \"$*\"",
        address = hosts.far.address(),
        far = hosts.far.name(),
        logins = site.path("logins").display()
    );
    let ssh = site.program("bin/ssh", &body);
    let mut copy = site.copy(&["--ssh", &ssh, "--streams", "4", "--rate", "16mbit", "file"]);
    let ended = hosts.near.run(copy.arg(site.on_host("far", "copy"))).run().expect_code(0);
    let routes: Vec<&str> = ended.all("route").map(|event| event["via"].as_str().unwrap()).collect();
    assert!(routes == ["direct"] || routes == ["back"], "{ended}");
    assert_eq!(ended.all("connected").count(), 4, "{ended}");
    let logins = fs::read_to_string(site.path("logins")).unwrap();
    assert_eq!(logins.lines().count(), 1, "the far end's own: {ended}");
    assert_same(&site.path("file"), &site.path("copy"));
}

/// Nobody may connect to the far host but to port 22; it may connect to others.
const ONE_WAY: &str = "table inet test { chain input { type filter hook input priority 0; \
     iifname \"eth0\" tcp flags & (syn|ack) == syn tcp dport != 22 drop; }; }";

/// Asserts that the run's data came by connections from the far end, so many in all.
#[track_caller]
fn came_back(ended: &Ended, connections: usize) {
    let routes: Vec<&str> = ended.all("route").map(|event| event["via"].as_str().unwrap()).collect();
    assert_eq!(routes, ["back"], "{ended}");
    assert_eq!(ended.all("connected").count(), connections, "{ended}");
}

#[test]
fn the_far_end_connects_back_where_the_user_says_so() {
    let site = Site::new();
    let port = free_port();
    let range = format!("{port}-{}", port + 40);
    let options = ["--ssh", &site.ssh(), "--via", "back", "--port", &range, "--streams", "3", "--rate", "200mbit"];
    both_ways(&site, &options, |name| site.by_ssh(name), |ended| came_back(ended, 3));
}

#[test]
fn where_a_firewall_keeps_connections_from_the_far_side_it_connects_back() {
    let site = Site::new();
    let Some((hosts, sshd)) = Sshd::beyond_firewalls(&site) else { return };
    succeed(hosts.far.command("nft").arg(ONE_WAY));
    let tree = data::tree(&site.path("tree"), 5, &shape());
    let far = |name: &str| format!("far:{}", site.path(name).display());
    for (source, destination, arrived) in
        [("tree".to_owned(), far("pushed"), "pushed"), (far("tree"), "pulled".to_owned(), "pulled")]
    {
        let words = ["--ssh", &sshd.command, "--streams", "4", "--rate", "200mbit", &source, &destination];
        let ended = hosts.near.run(&site.copy(&words)).run().expect_code(0);
        came_back(&ended, 4);
        let reason = reason(&ended);
        // The second time it is known.
        assert!(
            reason.contains(if arrived == "pushed" { "did not answer" } else { "it worked last time" }),
            "{reason}"
        );
        assert_same(&tree, &site.path(arrived));
    }
    // After a cut it goes on by the same route.
    let file = site.path("file");
    data::file(&file, 48 * MIB, 3);
    let words =
        ["--ssh", &sshd.command, "--streams", "2", "--rate", "80mbit", "--retry-for", "60s", "file", &far("copy")];
    let run = hosts.near.run(&site.copy(&words)).start();
    assert!(run.wait_for_bytes(8 * MIB), "{}", run.finish());
    let killed =
        hosts.near.command("ss").args(["-K", "-H", "-t", "dst", hosts.far.address(), "dport", "!=", ":22"]).output();
    if killed.is_ok_and(|output| output.status.success() && !output.stdout.is_empty()) {
        let ended = run.finish().expect_code(0);
        assert_eq!(ended.all("reconnecting").count(), 1, "{ended}");
        came_back(&ended, 4);
        assert_same(&file, &site.path("copy"));
    } else {
        skip("ss cannot break connections here");
        run.kill();
    }
}

#[test]
fn where_the_far_side_does_not_get_through_either_it_is_told_why() {
    let site = Site::new();
    let Some(hosts) = Pair::new() else { return };
    if !has_program("nft") {
        return skip("a firewall needs nftables");
    }
    data::file(&site.path("file"), MIB, 3);
    for (rule, words) in [("drop", "did not answer"), ("reject with tcp reset", "refused the connection")] {
        let rules = format!(
            "table inet test {{ chain input {{ type filter hook input priority 0; \
             iifname \"eth0\" tcp flags & (syn|ack) == syn {rule}; }}; }}"
        );
        succeed(hosts.near.command("nft").arg(rules));
        let mut copy = site.copy(&["--ssh", &site.ssh_to(&hosts.far), "--via", "back", "file"]);
        let ended = hosts.near.run(copy.arg(site.on_host(hosts.far.address(), "copy"))).run().expect_code(3);
        assert!(ended.stderr.contains("cannot connect to this host") && ended.stderr.contains(words), "{ended}");
        assert!(ended.stderr.contains("--port") && ended.stderr.contains("or leave --via out"), "{ended}");
        succeed(hosts.near.command("nft").args(["flush", "ruleset"]));
    }
}

#[test]
fn where_ipv6_passes_one_way_only_the_other_way_is_found() {
    let site = Site::new();
    let Some(hosts) = Pair::new() else { return };
    if !has_program("nft") {
        return skip("a firewall needs nftables");
    }
    for (host, address) in [(&hosts.near, "fd77::1/64"), (&hosts.far, "fd77::2/64")] {
        succeed(host.command("ip").args(["address", "add", address, "dev", "eth0", "nodad"]));
    }
    succeed(hosts.far.command("nft").arg(ONE_WAY));
    data::file(&site.path("file"), 12 * MIB, 3);
    let mut copy = site.copy(&["-6", "--ssh", &site.ssh_to(&hosts.far), "--streams", "2", "--rate", "80mbit", "file"]);
    let ended = hosts.near.run(copy.arg(site.on_host("[fd77::2]", "copy"))).run().expect_code(0);
    came_back(&ended, 2);
    let peers: Vec<&str> = ended.all("connected").map(|event| event["peer"].as_str().unwrap()).collect();
    assert!(peers.iter().all(|peer| peer.starts_with("[fd77::2]:")), "{peers:?}");
    // IPv4 is shown as such, also where the socket serves both families.
    let address = hosts.far.address();
    let mut copy = site.copy(&["--ssh", &site.ssh_to(&hosts.far), "--via", "back", "file"]);
    let ended = hosts.near.run(copy.arg(site.on_host(address, "again"))).run().expect_code(0);
    let peers: Vec<&str> = ended.all("connected").map(|event| event["peer"].as_str().unwrap()).collect();
    assert!(peers.iter().all(|peer| peer.starts_with(&format!("{address}:"))), "{peers:?}");
    assert_same(&site.path("file"), &site.path("copy"));
}

#[test]
fn an_address_of_the_link_leads_back_by_the_link_of_ssh() {
    let site = Site::new();
    let Some(hosts) = Pair::new() else { return };
    for (host, address) in [(&hosts.near, "fe80::a:1/64"), (&hosts.far, "fe80::a:2/64")] {
        succeed(host.command("ip").args(["address", "add", address, "dev", "eth0", "nodad"]));
        // Another link that has such addresses, and leads nowhere.
        succeed(host.command("ip").args(["link", "add", "dummy0", "type", "veth", "peer", "name", "dummy1"]));
        succeed(host.command("ip").args(["link", "set", "dummy0", "up"]));
    }
    data::file(&site.path("file"), 12 * MIB, 3);
    let far = hosts.far.name();
    // As sshd has it.
    let connection = "fe80::a:1%eth0 50000 fe80::a:2%eth0 22";
    let body = format!("shift\nSSH_CONNECTION='{connection}' exec ip netns exec {far} sh -c \"$*\"");
    let ssh = site.program("ssh-of-link", &body);
    for via in ["back", "direct"] {
        let mut copy = site.copy(&["--ssh", &ssh, "--via", via, "--streams", "2", "--rate", "80mbit", "file"]);
        let ended = hosts.near.run(copy.arg(site.on_host("[fe80::a:2%eth0]", via))).run().expect_code(0);
        assert_eq!(ended.all("route").next().unwrap()["via"], via, "{ended}");
        assert_same(&site.path("file"), &site.path(via));
    }
}

#[test]
fn the_doctor_tells_what_is_remembered_of_a_host_also_if_it_does_not_answer() {
    let site = Site::new();
    let ssh = picky_ssh(&site, "true");
    data::file(&site.path("file"), 3 * MIB, 1);
    site.copy(&["--ssh", &ssh, "file"]).arg(site.by_ssh("copy")).run().expect_code(0);
    assert_eq!(picky_ssh(&site, "false"), ssh);
    let doctor = |words: &[&str]| site.icdc(&[&["doctor", "--ssh", &ssh, HERE], words].concat()).run().expect_code(3);
    let ended = doctor(&["--json"]);
    let remembered = &ended.events[0]["path"]["remembered_route"];
    assert!(
        remembered["via"] == "direct" && remembered["age_seconds"].as_u64().is_some_and(|age| age < 600),
        "{ended}"
    );
    let ended = doctor(&[]);
    assert!(ended.text.contains("data last went by the route direct"), "{ended}");
}

#[test]
fn data_goes_to_the_machine_where_the_far_end_is_though_the_name_leads_to_another() {
    let site = Site::new();
    let Some((hosts, sshd)) = Sshd::beyond_firewalls(&site) else { return };
    site.directory("bin");
    // The name leads to the far host for the first login, and then to the near one, where nobody listens.
    let (far, near) = (&sshd.command, format!("{} -o HostName={}", sshd.command, hosts.near.address()));
    let rotating = |of_its_own: &str| {
        let cases = format!("*' -G '*|*PermitLocalCommand=no*) exec {near} \"$@\";; *BatchMode=yes*) {of_its_own};;");
        site.program("bin/ssh", &format!("case \" $* \" in {cases} esac\nexec {far} \"$@\""))
    };
    let ssh = rotating(&format!("exec {near} \"$@\""));
    data::file(&site.path("file"), 9 * MIB, 3);
    let copy = |options: &[&str], name: &str| {
        let copy = site.copy(&["--ssh", &ssh, "--streams", "3"]);
        let mut copy = hosts.near.run(&copy);
        // A shell that runs nothing is not needed.
        copy.args(options).arg("file").arg(format!("far:{}", site.path(name).display())).env("SHELL", "/bin/false");
        let ended = copy.run().expect_code(0);
        assert_same(&site.path("file"), &site.path(name));
        ended
    };
    let ended = copy(&[], "directly");
    assert_eq!(ended.all("route").next().unwrap()["via"], "direct", "{ended}");
    hosts.far.firewall(FIREWALL);
    by_ssh(&copy(&["--via", "ssh"], "by-ssh"), 3);
    // What is known of another route does not lead elsewhere, either.
    by_ssh(&copy(&[], "by-search"), 3);
    assert_eq!(rotating("echo 'Permission denied' >&2; exit 255"), ssh);
    let ended = copy(&["--via", "ssh"], "attended");
    by_ssh(&ended, 1);
    assert!(ended.stderr.contains("answered by hand"), "{ended}");
    assert_no_leftovers(site.root());
}
