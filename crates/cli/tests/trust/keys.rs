//! What the line of a key may say besides root and rights, and keys of OpenSSH.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::kill_process;

use crate::support::daemon::{Daemon, with_user};
use crate::support::process::eventually;
use crate::support::{
    Ended, MIB, Signal, Site, Start, assert_no_leftovers, assert_same, data, has_program, skip, succeed,
};

/// A site with `root/in`, a file of some size to push, and a daemon whose line has these options.
fn scene(options: &str) -> (Site, Daemon) {
    let site = Site::new();
    site.directory("root/in");
    data::file(&site.path("push"), 3 * MIB, 1);
    let daemon = Daemon::named(&site, "daemon", &format!("root=\"{}\",{options}", site.path("root").display()));
    (site, daemon)
}

fn push(site: &Site, words: &[&str], source: &str, daemon: &Daemon, to: &str) -> Ended {
    site.copy(words).arg(site.path(source)).arg(daemon.location(to)).run()
}

/// Asserts that the run was not let in, and said so with these words.
#[track_caller]
fn kept_out(ended: Ended, words: &str) {
    let ended = ended.expect_code(3);
    assert!(ended.stderr.contains(words), "{words:?} is not said: {ended}");
}

/// Asserts that the run failed because this limit of its key is used up.
#[track_caller]
fn used_up(ended: Ended, limit: &str) {
    let ended = ended.expect_code(1);
    assert!(ended.stderr.contains("used up the bytes") && ended.stderr.contains(limit), "{ended}");
}

/// Adds a line for another key.
fn add_line(site: &Site, options: &str, key: &str) {
    let list = site.path("daemon/authorized_keys");
    let lines = fs::read_to_string(&list).unwrap();
    let root = site.path("root");
    let options = with_user(&format!("root=\"{}\",{options}", root.display()));
    fs::write(list, format!("{}\n{options} {key}\n", lines.trim_end())).unwrap();
}

/// A key made by `ssh-keygen`.
fn ssh_key(site: &Site, name: &str) -> PathBuf {
    let file = site.path(name);
    succeed(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-C", "of ssh", "-f"]).arg(&file));
    file
}

#[test]
fn a_drop_box_takes_what_is_new_and_changes_and_tells_nothing_else() {
    let (site, daemon) = scene("rights=drop-box");
    let there = site.path("root/in");
    fs::write(there.join("old"), "old").unwrap();
    fs::set_permissions(&there, Permissions::from_mode(0o751)).unwrap();
    fs::create_dir_all(site.path("in/deeper")).unwrap();
    fs::create_dir_all(site.path("in/new")).unwrap();
    fs::set_permissions(site.path("in"), Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(site.path("in/new"), Permissions::from_mode(0o705)).unwrap();
    for (name, text) in [("old", "OLD"), ("fresh", "fresh"), ("deeper/a", "a"), ("new/b", "b")] {
        fs::write(site.path("in").join(name), text).unwrap();
    }
    fs::create_dir(there.join("deeper")).unwrap();
    fs::set_permissions(there.join("deeper"), Permissions::from_mode(0o711)).unwrap();

    // Each on its own: a file of several blocks' size, and again, also with --update and --skip-equal, and where it is the same.
    push(&site, &["--"], "push", &daemon, "in/pushed").expect_code(0);
    assert_same(&site.path("push"), &there.join("pushed"));
    for words in [&["--"][..], &["--update", "--"], &["--skip-equal", "--"], &["--no-resume", "--"]] {
        let again = push(&site, words, "push", &daemon, "in/pushed").expect_code(1);
        assert!(again.stderr.contains("something has this name"), "{again}");
    }
    let replaced = push(&site, &["--"], "in/old", &daemon, "in/old").expect_code(1);
    assert!(replaced.stderr.contains("something has this name"), "{replaced}");

    // A tree goes into what is there, of which nothing is changed but that there are more names.
    let tree = push(&site, &["--"], "in", &daemon, "/").expect_code(1);
    assert!(tree.stderr.contains("old: something has this name") && !tree.stderr.contains("fresh"), "{tree}");
    assert_eq!(fs::read(there.join("old")).unwrap(), b"old");
    for (name, text) in [("fresh", "fresh"), ("deeper/a", "a"), ("new/b", "b")] {
        assert_eq!(fs::read_to_string(there.join(name)).unwrap(), text);
    }
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&there), mode(&there.join("deeper")), mode(&there.join("new"))), (0o751, 0o711, 0o705));

    // A directory of that name is told no otherwise than a file, and a dry run is refused.
    for taken in ["in/old", "in/deeper/", "in/deeper/a/"] {
        let ended = push(&site, &["--"], "in/new/b", &daemon, taken);
        assert!(!ended.stderr.contains("regular file") && !ended.stderr.contains("is a directory"), "{ended}");
    }
    for name in ["in/old", "in/new/nothing", "in/deeper/"] {
        kept_out(push(&site, &["--dry-run", "--"], "in/old", &daemon, name), "a drop box does not tell what is there");
    }
    kept_out(site.copy(&["--"]).arg(daemon.location("in/old")).arg("pulled").run(), "may not read");
    assert_no_leftovers(&site.path("root"));
}

/// Something that has the name `x` in the drop box, made there.
const TAKEN: [(&str, &str); 8] = [
    ("file", "echo x >x"),
    ("empty file of root", "touch x; chmod 0 x"),
    ("pipe", "mkfifo x"),
    ("link to nothing", "ln -s nothing x"),
    ("link to a file", "ln -s old x"),
    ("link to itself", "ln -s x x"),
    ("link out of the root", "ln -s / x"),
    ("directory", "mkdir x"),
];

#[test]
fn a_drop_box_tells_nobody_what_has_a_name() {
    let (site, daemon) = scene("rights=drop-box");
    let there = site.path("root/in");
    fs::write(there.join("old"), "old").unwrap();
    // Trees with an `x` of each kind, and a file of several blocks.
    for name in ["as-file", "as-link", "as-large", "as-directory/x"] {
        fs::create_dir_all(site.path(name)).unwrap();
    }
    fs::write(site.path("as-file/x"), "x").unwrap();
    fs::write(site.path("as-directory/x/y"), "y").unwrap();
    data::file(&site.path("as-large/x"), 9 * MIB, 1);
    symlink("elsewhere", site.path("as-link/x")).unwrap();
    // Sources and where to, and whether a directory of that name takes them.
    let attempts: [(&[&str], &str, bool); 11] = [
        (&["as-file/"], "in/", false),
        (&["as-link/"], "in/", false),
        (&["as-large/"], "in/", false),
        (&["as-file/x"], "in/x", true),
        (&["as-directory/"], "in/", true),
        (&["as-file"], "in/x", true),
        (&["as-file/x"], "in/x/", true),
        (&["as-file", "as-link"], "in/x", true),
        (&["as-file/x"], "in/x/y", true),
        (&["--mkpath", "as-file/x"], "in/x/y/z", true),
        (&["as-file/"], "in/x", true),
    ];
    let mut betrayed = Vec::new();
    for (sources, to, is_taken_by_directories) in attempts {
        let mut told = Vec::new();
        for (kind, make) in TAKEN.iter().filter(|(kind, _)| *kind != "directory" || !is_taken_by_directories) {
            succeed(Command::new("sh").args(["-c", make]).current_dir(&there));
            let ended = site.copy(sources).arg(daemon.location(to)).run();
            let reasons: Vec<String> = ended.all("item").map(|item| item["reason"].to_string()).collect();
            told.push((*kind, (ended.code, ended.stderr.clone(), reasons)));
            succeed(Command::new("rm").arg("-rf").arg(there.join("x")));
        }
        let (_, first) = &told[0];
        assert!(first.0 != Some(0), "{sources:?} to {to}: {first:?}");
        let different = told.iter().filter(|(_, other)| other != first);
        betrayed.extend(different.map(|(kind, other)| format!("{sources:?} to {to}: {kind}: {other:?}, {first:?}")));
    }
    assert!(betrayed.is_empty(), "{betrayed:#?}");
    assert_eq!(fs::read(there.join("old")).unwrap(), b"old");
}

#[test]
fn a_drop_box_goes_on_with_its_own_unfinished_file_and_leaves_that_of_another_key() {
    let (site, daemon) = scene("rights=drop-box");
    succeed(site.icdc(&["keygen", "--identity"]).arg(site.path("other")));
    add_line(&site, "rights=drop-box", &fs::read_to_string(site.path("other.pub")).unwrap());
    data::file(&site.path("large"), 40 * MIB, 2);
    let start = |rate: &str, words: &[&str]| {
        let mut command = site.copy(&["--rate", rate]);
        command.args(words).arg("--").arg(site.path("large")).arg(daemon.location("in/large")).start()
    };
    let unfinished = || {
        let names = fs::read_dir(site.path("root/in")).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_some_and(|extension| extension == "part")).count()
    };
    let first = start("100mbit", &[]);
    assert!(first.wait_for_bytes(16 * MIB));
    first.kill();
    // Another key that wants the same name does not get at the data.
    let other = site.path("other");
    let second = start("40mbit", &["--identity", other.to_str().unwrap()]);
    // More than a block, which is kept.
    assert!(second.wait_for_bytes(9 * MIB));
    assert!(eventually(|| unfinished() == 2), "each has its own");
    second.kill();
    let again = start("10gbit", &[]).finish().expect_code(0);
    assert!(again.resumed() > 0, "{again}");
    assert_same(&site.path("large"), &site.path("root/in/large"));
    assert!(eventually(|| unfinished() == 1), "the other's is still there");
    // The name is taken now, and what the other key had is of no use any more.
    let late = start("10gbit", &["--identity", other.to_str().unwrap()]).finish().expect_code(1);
    assert!(late.stderr.contains("something has this name"), "{late}");
    assert_same(&site.path("large"), &site.path("root/in/large"));
    assert_no_leftovers(&site.path("root"));
}

#[test]
fn a_key_is_let_in_from_where_its_line_says() {
    let (site, daemon) = scene("rights=w,from=\"192.0.2.0/24,2001:db8::/32\"");
    kept_out(push(&site, &["--"], "push", &daemon, "in/a"), "may not be used from this address");
    let (site, daemon) = scene("rights=w,from=\"127.0.0.0/8,!127.9.*\"");
    push(&site, &["--"], "push", &daemon, "in/a").expect_code(0);
}

#[test]
fn a_key_expires_while_it_is_used() {
    // Long enough for the copy to begin, on a slow machine too: it is repeated with more time where it was not.
    for seconds in [4, 16, 64] {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let expires = succeed(Command::new("date").args(["-u", "+%FT%TZ", "-d", &format!("@{}", now + seconds)]));
        let (site, daemon) = scene(&format!("rights=w,expires={}", expires.trim()));
        let mut slow = site.copy(&["--rate", "100kbit", "--"]);
        let slow = slow.arg(site.path("push")).arg(daemon.location("in/a")).start();
        if !slow.wait_for_bytes(1) {
            continue;
        }
        let ended = slow.finish();
        assert_eq!(ended.code, Some(3), "{ended}");
        assert!(ended.stderr.contains("expired"), "{ended}");
        assert!(daemon.run().wait_for_words("has expired"));
        kept_out(push(&site, &["--"], "push", &daemon, "in/b"), "this key has expired");
        assert!(!site.path("root/in/a").exists() && !site.path("root/in/b").exists());
        return;
    }
    panic!("no copy began before its key expired");
}

#[test]
fn a_key_has_no_more_sessions_at_a_time_than_its_line_says() {
    let (site, daemon) = scene("rights=w,max-sessions=1");
    let mut slow = site.copy(&["--rate", "100kbit", "--streams", "3", "--"]);
    let slow = slow.arg(site.path("push")).arg(daemon.location("in/slow")).start();
    assert!(slow.wait_for_bytes(1));
    kept_out(push(&site, &["--"], "push", &daemon, "in/a"), "as many sessions as it may have");
    slow.kill();
    assert!(eventually(|| push(&site, &["--"], "push", &daemon, "in/b").code == Some(0)), "there is room again");
}

#[test]
fn a_session_is_no_faster_than_its_line_says() {
    let (site, daemon) = scene("rights=rw,max-rate=16mbit");
    // 3 MiB at 16 Mbit/s.
    let least = Duration::from_millis(1500);
    let since = Instant::now();
    let pushed = push(&site, &["--"], "push", &daemon, "in/a").expect_code(0);
    assert!(since.elapsed() >= least, "delivered in {:?}", since.elapsed());
    let since = Instant::now();
    let pulled = site.copy(&["--"]).arg(daemon.location("in/a")).arg("back").run().expect_code(0);
    for ended in [&pushed, &pulled] {
        let summary = ended.summary();
        assert_eq!(summary["max_rate_bps"], 16_000_000, "{ended}");
        let share = |stage: &str| summary["limited_by"][stage].as_f64().unwrap_or(0.0);
        assert!(share("max_rate") > 0.5 && share("rate_ceiling") == 0.0, "the key's limit is named: {ended}");
        assert!(ended.all("progress").any(|sample| sample["limited_by"] == "max_rate"), "{ended}");
    }
    let page = site.path("page.html");
    let mut own = site.icdc(&["copy", "--rate", "8mbit", "--report"]);
    let own = own.arg(&page).arg("push").arg(daemon.location("in/own")).run().expect_code(0);
    assert!(own.text.contains("limited by rate ceiling") && !own.text.contains("far end's limit"), "{own}");
    let page = fs::read_to_string(page).unwrap();
    assert!(
        page.contains("The far end&#39;s limit")
            || page.contains("The far end's limit") && page.contains("16.0 Mbit/s"),
        "{page}"
    );
    let told = site.icdc(&["copy", "push"]).arg(daemon.location("in/told")).run().expect_code(0);
    assert!(told.text.contains("limited by the far end's limit (16.0 Mbit/s)"), "{told}");
    assert!(since.elapsed() >= least / 2, "fetched in {:?}", since.elapsed());
    assert_same(&site.path("push"), &site.path("back"));
    // A measurement would heed no limit.
    let measured = site.icdc(&["measure", "--seconds", "1", &daemon.location("")]).run();
    assert!(measured.code != Some(0) && measured.stderr.contains("limited"), "{measured}");
}

#[test]
fn a_session_ends_when_the_bytes_of_its_key_are_used_up() {
    for push in [true, false] {
        let (site, daemon) = scene("rights=rw,quota=10MB");
        data::file(&site.path("long"), 60 * MIB, 4);
        fs::copy(site.path("long"), site.path("root/long")).unwrap();
        let mut copy = site.copy(&["--rate", "40mbit", "--streams", "2"]);
        match push {
            true => copy.arg(site.path("long")).arg(daemon.location("in/long")),
            false => copy.arg(daemon.location("long")).arg("back"),
        };
        used_up(copy.run(), "quota=10MB");
        assert!(!site.path("root/in/long").exists() && !site.path("back").exists());
    }
}

#[test]
fn sessions_of_a_key_together_move_no_more_than_it_may() {
    for limit in ["bytes-per-day=20MB", "quota=20MB"] {
        let (site, daemon) = scene(&format!("rights=rw,{limit}"));
        data::file(&site.path("long"), 16 * MIB, 4);
        let start = |number: usize| {
            let mut copy = site.copy(&["--"]);
            copy.arg(site.path("long")).arg(daemon.location(&format!("in/{number}"))).start()
        };
        let runs: Vec<_> = (0..4).map(start).collect();
        let ended: Vec<_> = runs.into_iter().map(|run| run.finish()).collect();
        let stored = (0..4).filter(|number| site.path(format!("root/in/{number}")).exists()).count();
        assert!(stored <= 1, "{stored} files of 16 MiB went through a limit of 20 MB");
        assert_eq!(ended.iter().filter(|ended| ended.code == Some(0)).count(), stored);
        ended.into_iter().filter(|ended| ended.code != Some(0)).for_each(|ended| used_up(ended, limit));
    }
}

#[test]
fn whoever_kills_a_session_is_counted_what_it_has_moved() {
    let (site, daemon) = scene("rights=rw,quota=10MB");
    data::file(&site.path("long"), 60 * MIB, 4);
    let mut copy = site.copy(&["--rate", "40mbit"]);
    let run = copy.arg(site.path("long")).arg(daemon.location("in/long")).start();
    // Before the daemon has heard much of it.
    assert!(run.wait_for_bytes(4 * MIB), "{}", run.stderr());
    daemon.run().sessions().into_iter().for_each(|session| kill_process(session, Signal::KILL).unwrap());
    used_up(run.finish(), "quota=10MB");
}

#[test]
fn what_a_key_may_move_is_counted_and_used_up() {
    let (site, daemon) = scene("rights=rw,quota=5MB,bytes-per-day=1TB");
    push(&site, &["--"], "push", &daemon, "in/a").expect_code(0);
    // What is left is less than this, however fast it is.
    used_up(push(&site, &["--"], "push", &daemon, "in/b"), "quota=5MB");
    used_up(site.copy(&["--"]).arg(daemon.location("in/a")).arg("back").run(), "quota=5MB");
    daemon.stop();
    let kept = fs::read_dir(site.path("home/.local/state/icdc")).unwrap().map(|entry| entry.unwrap().path());
    let kept: Vec<_> = kept
        .filter(|path| path.to_string_lossy().contains("usage-") && path.extension().is_some_and(|kind| kind == "json"))
        .collect();
    let key = fs::read_to_string(site.path("home/.config/icdc/identity.pub")).unwrap();
    let key = key.split_whitespace().nth(1).unwrap();
    assert!(kept.len() == 1 && fs::read_to_string(&kept[0]).unwrap().contains(key), "{kept:?}");
}

#[test]
fn a_key_of_openssh_is_let_in_and_shown() {
    if !has_program("ssh-keygen") {
        return skip("there is no ssh-keygen");
    }
    let (site, daemon) = scene("rights=r");
    let key = ssh_key(&site, "id");
    let public = fs::read_to_string(site.path("id.pub")).unwrap();
    let identity = |file: &Path| format!("--identity={}", file.display());
    // The line that is told serves for it as well.
    kept_out(push(&site, &[&identity(&key), "--"], "push", &daemon, "in/a"), "icdc-ed25519");
    add_line(&site, "rights=w", public.trim());
    push(&site, &[&identity(&key), "--"], "push", &daemon, "in/a").expect_code(0);
    assert_same(&site.path("push"), &site.path("root/in/a"));
    let shown = succeed(site.icdc(&["keygen", "--show"]).arg(site.path("id.pub")));
    let listed = succeed(Command::new("ssh-keygen").args(["-l", "-f"]).arg(&key));
    let fingerprint = listed.split_whitespace().nth(1).unwrap();
    assert!(shown.contains(fingerprint) && shown.contains(public.split_whitespace().nth(1).unwrap()), "{shown}");
    assert_eq!(succeed(site.icdc(&["keygen", "--show"]).arg(&key)), shown);
    // A private key that others can read is told, and so is one whose passphrase nobody is asked for.
    fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    kept_out(push(&site, &[&identity(&key), "--"], "push", &daemon, "in/b"), "chmod 600");
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    succeed(Command::new("ssh-keygen").args(["-q", "-p", "-P", "", "-N", "a passphrase", "-f"]).arg(&key));
    kept_out(push(&site, &[&identity(&key), "--"], "push", &daemon, "in/b"), "passphrase");
    // Of another type there is none to let in.
    let list = site.path("daemon/authorized_keys");
    let lines = fs::read_to_string(&list).unwrap();
    fs::write(&list, format!("{lines}root=/srv ssh-rsa AAAA me\n")).unwrap();
    assert!(daemon.run().wait_for_words("keys of type ssh-rsa are not used"));
}

/// A running ssh-agent, which ends with this.
struct Agent {
    child: Child,
    socket: PathBuf,
}

impl Agent {
    fn start(site: &Site) -> Self {
        let socket = site.path("agent");
        let child =
            Command::new("ssh-agent").arg("-D").arg("-a").arg(&socket).stdout(std::process::Stdio::null()).spawn();
        let agent = Self { child: child.unwrap(), socket };
        assert!(eventually(|| agent.socket.exists()), "ssh-agent does not listen");
        agent
    }

    fn add(&self, words: &[&str]) {
        succeed(Command::new("ssh-add").arg("-q").args(words).env("SSH_AUTH_SOCK", &self.socket));
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_agent_signs_for_the_key_that_it_holds() {
    if !(has_program("ssh-agent") && has_program("ssh-keygen")) {
        return skip("there is no ssh-agent");
    }
    let (site, daemon) = scene("rights=r");
    let key = ssh_key(&site, "id");
    let public = site.path("id.pub");
    add_line(&site, "rights=w", fs::read_to_string(&public).unwrap().trim());
    let agent = Agent::start(&site);
    let push = |to: &str| {
        let mut command = site.copy(&["--identity"]);
        command.arg(&public).arg("--").arg(site.path("push")).arg(daemon.location(to));
        command
    };
    kept_out(push("in/a").env_remove("SSH_AUTH_SOCK").run(), "SSH_AUTH_SOCK");
    kept_out(push("in/a").env("SSH_AUTH_SOCK", &agent.socket).run(), "does not have this key");
    agent.add(&[key.to_str().unwrap()]);
    fs::remove_file(&key).unwrap();
    push("in/a").env("SSH_AUTH_SOCK", &agent.socket).run().expect_code(0);
    assert_same(&site.path("push"), &site.path("root/in/a"));
    agent.add(&["-D"]);
    kept_out(push("in/b").env("SSH_AUTH_SOCK", &agent.socket).run(), "does not have this key");
}
