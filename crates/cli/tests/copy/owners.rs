//! Owners by name, between two hosts with accounts of their own: each end runs in a mount namespace
//! with another `/etc/passwd` and `/etc/group`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::acls::{ACCESS, DEFAULT, get, list, set};
use crate::delete::pipe;
use crate::support::daemon::Daemon;
use crate::support::process::{Ended, Start};
use crate::support::{HERE, ICDC, MIB, Noise, Route, Site, data, has_program, is_root, skip};

/// Unless `ICDC_TEST_RULES` says otherwise.
const TREES: u64 = 40;

/// Users of a host, and groups with the same names and numbers.
type Accounts = [(&'static str, u32); 4];

const NEAR: Accounts = [("root", 0), ("anna", 5001), ("bert", 5002), ("only-near", 5003)];
/// The number of Anna at one host is Bert's at the other.
const FAR: Accounts = [("root", 0), ("anna", 6001), ("bert", 5001), ("only-far", 6003)];

/// Number that the owner `id` of the one host gets at the other, without rules.
fn by_name(from: &Accounts, to: &Accounts, id: u32) -> u32 {
    let name = from.iter().find(|(_, other)| *other == id).map(|(name, _)| *name);
    to.iter().find(|(other, _)| Some(*other) == name).map_or(id, |(_, number)| *number)
}

/// A site whose near and far ends have accounts of their own.
struct TwoHosts {
    site: Site,
    route: Route,
    ssh: String,
    daemon: Option<Daemon>,
}

/// A script that runs its words with the accounts `name` of the site.
fn with_accounts(site: &Site, name: &str) -> String {
    let place = site.path(name).display().to_string();
    format!(
        "exec unshare --mount --propagation private sh -c 'mount --bind \"$0.passwd\" /etc/passwd && mount --bind \"$0.group\" \
         /etc/group && exec \"$@\"' {place}"
    )
}

impl TwoHosts {
    /// `None` where an end cannot have accounts of its own, with the reason on standard error.
    fn new(route: Route) -> Option<Self> {
        if !is_root() {
            skip("giving files to others needs root");
            return None;
        }
        let site = Site::new();
        for (name, accounts) in [("near", NEAR), ("far", FAR)] {
            let users = accounts.map(|(user, id)| format!("{user}:x:{id}:{id}::/:/bin/sh\n")).concat();
            let groups = accounts.map(|(group, id)| format!("{group}:x:{id}:\n")).concat();
            fs::write(site.path(format!("{name}.passwd")), users).unwrap();
            fs::write(site.path(format!("{name}.group")), groups).unwrap();
            site.program(&format!("at-{name}"), &format!("{} \"$@\"", with_accounts(&site, name)));
        }
        let tried = Command::new(site.path("at-near")).args(["id", "-u", "anna"]).output().unwrap();
        if !tried.status.success() {
            skip(&format!("no mount namespace: {}", String::from_utf8_lossy(&tried.stderr)));
            return None;
        }
        let ssh = site.program("ssh-far", &format!("shift\n{} sh -c \"$*\"", with_accounts(&site, "far")));
        let daemon = matches!(route, Route::ToDaemon | Route::FromDaemon).then(|| {
            let options = format!("root=\"{}\",rights=rw,owner=keep", site.root().display());
            Daemon::adapted(&site, &options, |command| *command = at(&site, "far", command))
        });
        Some(Self { site, route, ssh, daemon })
    }

    fn accounts(&self) -> (Accounts, Accounts) {
        match self.route {
            Route::Local => (NEAR, NEAR),
            Route::Push | Route::ToDaemon => (NEAR, FAR),
            Route::Pull | Route::FromDaemon => (FAR, NEAR),
        }
    }

    /// The place `name` of the site, at the far host or here.
    fn place(&self, name: &str, by_ssh: Route, by_daemon: Route) -> OsString {
        match &self.daemon {
            _ if self.route == by_ssh => self.site.on_host(HERE, name),
            Some(daemon) if self.route == by_daemon => daemon.location(name).into(),
            _ => self.site.path(name).into(),
        }
    }

    /// Runs `icdc COMMAND` on the near host, between paths of the site.
    fn run(&self, command: &str, options: &[&str], source: &str, destination: &str) -> Ended {
        let mut words = self.site.icdc(&[command, "--json", "--remote-icdc", ICDC, "--ssh", &self.ssh]);
        words.args(options).arg(self.place(source, Route::Pull, Route::FromDaemon));
        words.arg(self.place(destination, Route::Push, Route::ToDaemon));
        at(&self.site, "near", &words).run()
    }

    fn copy(&self, options: &[&str], source: &str, destination: &str) -> Ended {
        self.run("copy", options, source, destination)
    }
}

/// A command at the host with these accounts.
fn at(site: &Site, name: &str, command: &Command) -> Command {
    let mut inside = Command::new(site.path(format!("at-{name}")));
    inside.arg(command.get_program()).args(command.get_args());
    site.settle(inside)
}

fn owner(path: &Path) -> (u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.uid(), found.gid())
}

const KEEP: [&str; 2] = ["--preserve", "mode,times,links,owner,acl,specials"];
const NAMES: [&str; 8] = ["", "anna", "bert", "large", "unknown", "roots", "link", "pipe"];

/// A tree of several owners of the host with these accounts; false where it can have no lists.
fn tree(path: &Path, accounts: &Accounts) -> bool {
    let [(_, root), (_, anna), (_, bert), (_, only)] = *accounts;
    fs::create_dir(path).unwrap();
    data::file(&path.join("anna"), 10, 1);
    fs::hard_link(path.join("anna"), path.join("further")).unwrap();
    data::file(&path.join("bert"), 10, 2);
    data::file(&path.join("large"), 5 * MIB, 3);
    data::file(&path.join("unknown"), 10, 4);
    data::file(&path.join("roots"), 10, 5);
    symlink("anna", path.join("link")).unwrap();
    pipe(&path.join("pipe"));
    let owners = [
        ("anna", anna, bert),
        ("bert", bert, anna),
        ("large", only, anna),
        ("unknown", 7777, 7778),
        ("roots", root, anna),
    ];
    for (name, user, group) in owners {
        chown(path.join(name), Some(user), Some(group)).unwrap();
    }
    lchown(path.join("link"), Some(bert), Some(only)).unwrap();
    lchown(path.join("pipe"), Some(anna), Some(root)).unwrap();
    chown(path, Some(bert), Some(bert)).unwrap();
    // Of the user Bert, and the group with the next number.
    set(&path.join("large"), ACCESS, &list(bert, 4)) && set(path, DEFAULT, &list(anna, 7))
}

/// The list of [`list`] with the numbers that its user and group get at the other host.
fn mapped_list(from: &Accounts, to: &Accounts, user: u32, rights: u16) -> Vec<u8> {
    let mut value = list(by_name(from, to, user), rights);
    let group = by_name(from, to, user + 1);
    let at = value.len() - 3 * 8 + 4;
    value[at..at + 4].copy_from_slice(&group.to_le_bytes());
    value
}

#[test]
fn owners_and_lists_arrive_by_name() {
    for route in Route::ALL {
        let Some(hosts) = TwoHosts::new(route) else { return };
        let (from, to) = hosts.accounts();
        let (source, copy) = (hosts.site.path("tree"), hosts.site.path("copy"));
        let has_lists = tree(&source, &from);
        hosts.copy(&KEEP, "tree/", "copy").expect_code(0);
        let expected = |name: &str| {
            let (user, group) = owner(&source.join(name));
            (by_name(&from, &to, user), by_name(&from, &to, group))
        };
        let assert_by_name = || {
            for name in NAMES {
                assert_eq!(owner(&copy.join(name)), expected(name), "{route:?} {name}");
            }
            let inode = |name: &str| fs::metadata(copy.join(name)).unwrap().ino();
            assert_eq!(inode("anna"), inode("further"), "{route:?}");
            if has_lists {
                let [_, (_, anna), (_, bert), _] = from;
                assert_eq!(get(&copy.join("large"), ACCESS), Some(mapped_list(&from, &to, bert, 4)), "{route:?}");
                assert_eq!(get(&copy, DEFAULT), Some(mapped_list(&from, &to, anna, 7)), "{route:?}");
            }
        };
        assert_by_name();
        // What is equal by name is left alone.
        // A directory takes the files of its items' names anyway, and a file with several names loses a hidden one.
        let changed = || {
            let changed = |name: &&str| {
                let found = fs::symlink_metadata(copy.join(name)).unwrap();
                (found.ctime(), found.ctime_nsec())
            };
            NAMES[2..].iter().map(changed).collect::<Vec<_>>()
        };
        let before = changed();
        let again = [&KEEP[..], &["--skip-equal"]].concat();
        let ended = hosts.copy(&again, "tree/", "copy").expect_code(0);
        assert_eq!((ended.number("bytes_sent"), changed()), (0, before), "{route:?}: {ended}");
        // Numbers alone are amended, and back.
        let numeric = [&again[..], &["--numeric-ids"]].concat();
        let ended = hosts.copy(&numeric, "tree/", "copy").expect_code(0);
        assert_eq!(ended.number("bytes_sent"), 0, "{route:?}: {ended}");
        for name in NAMES {
            assert_eq!(owner(&copy.join(name)), owner(&source.join(name)), "{route:?} {name}");
        }
        hosts.copy(&again, "tree/", "copy").expect_code(0);
        assert_by_name();
    }
}

#[test]
fn rules_decide_before_names() {
    for route in Route::ALL {
        let Some(hosts) = TwoHosts::new(route) else { return };
        let (from, to) = hosts.accounts();
        tree(&hosts.site.path("tree"), &from);
        let (only_there, anna_there) = (to[3], to[1].1);
        let users = format!("7000-7999:{},root:{}", only_there.0, only_there.1);
        let rules = ["--usermap", &users, "--groupmap", ":4,ann*:3,*:anna"];
        hosts.copy(&[&KEEP[..], &rules].concat(), "tree/", "copy").expect_code(0);
        let copy = hosts.site.path("copy");
        let found = ["anna", "bert", "unknown", "roots"].map(|name| owner(&copy.join(name)));
        let by_name = |id| by_name(&from, &to, id);
        let expected =
            [(by_name(from[1].1), anna_there), (by_name(from[2].1), 3), (only_there.1, 4), (only_there.1, 3)];
        assert_eq!(found, expected, "{route:?}");
        // Without names, rules are about numbers.
        let rules = ["--usermap", "5001:4,*:5", "--groupmap", "7778:6", "--numeric-ids"];
        hosts.copy(&[&KEEP[..], &rules].concat(), "tree/", "numeric").expect_code(0);
        let numeric = hosts.site.path("numeric");
        assert_eq!(owner(&numeric.join("unknown")), (5, 6), "{route:?}");
        assert_eq!(owner(&numeric.join("bert")).1, from[1].1, "{route:?}");
    }
}

#[test]
fn a_name_that_the_receiving_host_does_not_have_is_refused_before_anything_is_made() {
    let host = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    for route in Route::ALL {
        let Some(hosts) = TwoHosts::new(route) else { return };
        let (from, _) = hosts.accounts();
        tree(&hosts.site.path("tree"), &from);
        let absent = if hosts.accounts().1 == FAR { "only-near" } else { "only-far" };
        for (option, what) in [("--usermap", "user"), ("--groupmap", "group")] {
            for more in [&[][..], &["--dry-run"]] {
                let rules = [option, &format!("*:{absent}")];
                let ended = hosts.copy(&[&KEEP[..], &rules, more].concat(), "tree/", "copy").expect_code(2);
                assert!(ended.stderr.contains(&format!("{host} has no {what} {absent}")), "{route:?}: {ended}");
                assert!(!hosts.site.path("copy").exists(), "{route:?}: {ended}");
            }
        }
    }
}

#[test]
fn owners_are_found_by_name_between_two_remote_hosts() {
    const OTHER: &str = "127.0.0.2";
    let Some(hosts) = TwoHosts::new(Route::Push) else { return };
    let site = &hosts.site;
    tree(&site.path("tree"), &NEAR);
    let at_host = |name: &str| format!("{} sh -c \"$*\"", with_accounts(site, name));
    let choose = format!("host=$1\nshift\n[ $host = {OTHER} ] && {}\n{}", at_host("near"), at_host("far"));
    let ssh = site.program("ssh-either", &choose);
    let mut copy = site.copy(&["--ssh", &ssh, "--preserve", "mode,times,links,owner,specials"]);
    copy.arg(site.on_host(OTHER, "tree/")).arg(site.on_host(HERE, "copy"));
    copy.run().expect_code(0);
    for name in NAMES {
        let (user, group) = owner(&site.path("tree").join(name));
        let expected = (by_name(&NEAR, &FAR, user), by_name(&NEAR, &FAR, group));
        assert_eq!(owner(&site.path("copy").join(name)), expected, "{name}");
    }
}

#[test]
fn older_copies_are_linked_where_owners_are_the_same_by_name() {
    for route in [Route::Push, Route::FromDaemon] {
        let Some(hosts) = TwoHosts::new(route) else { return };
        tree(&hosts.site.path("tree"), &hosts.accounts().0);
        hosts.copy(&KEEP, "tree/", "old").expect_code(0);
        let links = [&KEEP[..], &["--link-dest", "old"]].concat();
        let ended = hosts.copy(&links, "tree/", "new").expect_code(0);
        assert_eq!((ended.number("bytes_sent"), ended.number("linked")), (0, 5), "{route:?}: {ended}");
        let inode = |name: &str| fs::metadata(hosts.site.path(name)).unwrap().ino();
        assert_eq!(inode("old/bert"), inode("new/bert"), "{route:?}");
        // Another owner is not given to the older copy.
        let before = owner(&hosts.site.path("old/bert"));
        let ended = hosts.copy(&[&links[..], &["--usermap", "bert:9"]].concat(), "tree/", "newer").expect_code(0);
        assert_eq!(ended.number("bytes_sent"), 0, "{route:?}: {ended}");
        assert_eq!(
            (owner(&hosts.site.path("newer/bert")).0, owner(&hosts.site.path("old/bert"))),
            (9, before),
            "{route:?}"
        );
    }
}

#[test]
fn trees_are_compared_by_number() {
    let Some(hosts) = TwoHosts::new(Route::Push) else { return };
    tree(&hosts.site.path("tree"), &NEAR);
    hosts.copy(&KEEP, "tree/", "copy").expect_code(0);
    hosts.run("verify", &[], "tree", "copy").expect_code(0);
    let ended = hosts.run("verify", &["--ignore", "none"], "tree", "copy").expect_code(1);
    assert!(ended.events.iter().any(|event| event.to_string().contains("owner")), "{ended}");
    hosts.run("verify", &["--ignore", "none", "--repair"], "tree", "copy");
    assert_eq!(owner(&hosts.site.path("copy/anna")), owner(&hosts.site.path("tree/anna")));
}

/// Owner, and access control lists.
type Owned = ((u32, u32), [Option<Vec<u8>>; 2]);

/// Owners of everything beneath a directory.
fn owners(path: &Path) -> BTreeMap<PathBuf, Owned> {
    let mut all = BTreeMap::new();
    let mut left = vec![path.to_owned()];
    while let Some(next) = left.pop() {
        let found = fs::symlink_metadata(&next).unwrap();
        if found.is_dir() {
            left.extend(fs::read_dir(&next).unwrap().map(|entry| entry.unwrap().path()));
        }
        let lists = [ACCESS, DEFAULT].map(|kind| if found.is_symlink() { None } else { get(&next, kind) });
        all.insert(next.strip_prefix(path).unwrap().to_owned(), (owner(&next), lists));
    }
    all
}

fn random_tree(noise: &mut Noise, path: &Path, has_acls: bool) {
    const IDS: [u32; 8] = [0, 5001, 5002, 5003, 6001, 6003, 7, 70_000];
    let id = |noise: &mut Noise| IDS[noise.below(8) as usize];
    fs::create_dir(path).unwrap();
    for number in 0..10 {
        let path = path.join(number.to_string());
        match noise.below(4) {
            0 => fs::create_dir(&path).unwrap(),
            1 => symlink("0", &path).unwrap(),
            _ => fs::write(&path, noise.next().to_le_bytes()).unwrap(),
        }
        lchown(&path, Some(id(noise)), Some(id(noise))).unwrap();
        if has_acls && !path.is_symlink() && noise.below(2) == 0 {
            set(&path, ACCESS, &list(id(noise), noise.below(8) as u16));
        }
    }
}

const NAMELESS: [&str; 7] = ["*", "", "5001", "5000-5002", "0", "0-4294967294", "7-100000"];
const NAMED: [&str; 14] = [
    "anna",
    "bert",
    "only-near",
    "root",
    "*",
    "a*",
    "?ert",
    "[!a]*",
    "",
    "5001",
    "5000-5002",
    "0",
    "0-4294967294",
    "7-100000",
];

fn rules(noise: &mut Noise, from: &[&str]) -> String {
    const TO: [&str; 7] = ["anna", "bert", "root", "only-far", "9", "0", "5001"];
    let rule = |noise: &mut Noise| {
        format!("{}:{}", from[noise.below(from.len() as u64) as usize], TO[noise.below(7) as usize])
    };
    (0..=noise.below(3)).map(|_| rule(noise)).collect::<Vec<_>>().join(",")
}

#[test]
fn owners_are_those_that_rsync_gives() {
    if !has_program("rsync") {
        return skip("rsync is not installed");
    }
    let Some(hosts) = TwoHosts::new(Route::Push) else { return };
    let site = &hosts.site;
    let version = Command::new("rsync").arg("--version").output().unwrap().stdout;
    let version = String::from_utf8_lossy(&version).into_owned();
    let has_acls = !version.contains("no ACLs");
    let mut noise = Noise::logged(version.lines().next().unwrap_or_default());
    let trees = std::env::var("ICDC_TEST_RULES").ok().map_or(TREES, |text| text.parse().unwrap());
    for number in 0..trees {
        let (tree, theirs, ours) = (format!("{number}/tree"), format!("{number}/theirs"), format!("{number}/ours"));
        site.directory(number.to_string());
        random_tree(&mut noise, &site.path(&tree), has_acls);
        let mut options: Vec<String> = Vec::new();
        // Then rsync passes over rules that begin with a name, which icdc refuses, and applies none to lists.
        let is_numeric = noise.below(3) == 0;
        options.extend(is_numeric.then(|| "--numeric-ids".to_owned()));
        for option in ["--usermap", "--groupmap"] {
            if noise.below(3) > 0 {
                options.push(format!("{option}={}", rules(&mut noise, if is_numeric { &NAMELESS } else { &NAMED })));
            }
        }
        let mut rsync = Command::new("rsync");
        rsync.args([if has_acls { "-aA" } else { "-a" }, "-e", &hosts.ssh]).args(&options);
        rsync.arg(site.path(format!("{tree}/"))).arg(site.on_host(HERE, &theirs));
        let rsync = at(site, "near", &rsync).env("LC_ALL", "C").output().unwrap();
        assert!(rsync.status.success(), "tree {number}, {options:?}: {rsync:?}");
        let words: Vec<&str> = options.iter().map(String::as_str).collect();
        let kept = ["--preserve", if has_acls { "mode,times,links,owner,acl" } else { "mode,times,links,owner" }];
        hosts.copy(&[&kept[..], &words].concat(), &format!("{tree}/"), &ours).expect_code(0);
        let (theirs, ours) = (owners(&site.path(&theirs)), owners(&site.path(&ours)));
        for (path, theirs) in &theirs {
            let ours = ours.get(path).map(|(owner, lists)| (*owner, if is_numeric { &theirs.1 } else { lists }));
            assert_eq!(Some((theirs.0, &theirs.1)), ours, "tree {number}, {}, {options:?}", path.display());
        }
        assert_eq!(theirs.len(), ours.len(), "tree {number}");
    }
}
