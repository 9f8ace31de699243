//! Far ends that ssh starts: through a real sshd, through wrappers that fail in every way, and with
//! this program brought along.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use icdc_protocol::message::Bootstrap;
use rustix::process::kill_process;

use crate::sshd::Sshd;
use crate::support;
use crate::support::network::Pair;
use crate::support::{
    Ended, HERE, ICDC, MIB, Run, Shape, Signal, Site, Start, assert_no_leftovers, assert_same, data, is_root, skip,
    succeed,
};

/// Said of a data port that keeps silent.
const NOT_YET: &str = "has not answered within";

/// Asserts that the run could not connect or was not let in, and that what icdc itself said is one
/// sentence with `words` in it.
#[track_caller]
fn kept_out(ended: Ended, words: &[&str]) {
    let ended = ended.expect_code(3);
    let own = |line: &&str| {
        let of_ssh = line.starts_with("icdc: far: ");
        let is_notice = line.ends_with("using one sent from here, in its cache directory") || line.contains(NOT_YET);
        line.starts_with("icdc: ") && !of_ssh && !is_notice
    };
    let own: Vec<&str> = ended.stderr.lines().filter(own).collect();
    assert_eq!(own.len(), 1, "one sentence: {ended}");
    for word in words {
        assert!(own[0].contains(word), "{word:?} is not said: {ended}");
    }
}

/// Tries to push and to pull with a command for `--ssh`.
fn attempts(site: &Site, ssh: &str, options: &[&str], words: &[&str]) {
    let file = site.path("file");
    if !file.exists() {
        fs::write(&file, "file").unwrap();
    }
    for (source, destination) in
        [(file.clone().into_os_string(), site.by_ssh("arrived")), (site.by_ssh("file"), site.path("arrived").into())]
    {
        let mut command = site.icdc(&["copy", "--ssh", ssh]);
        kept_out(command.args(options).arg(source).arg(destination).run(), words);
        assert!(!site.path("arrived").exists());
    }
}

#[test]
fn every_way_in_which_ssh_fails_is_told_with_what_to_do() {
    let site = Site::new();
    attempts(&site, "/no/such/ssh", &[], &["/no/such/ssh", "--ssh"]);
    attempts(&site, "no-such-ssh -p 22", &[], &["no-such-ssh", "--ssh"]);
    let failing = site.program("failing", "echo 'Permission denied (publickey).' >&2\nexit 255");
    attempts(&site, &failing, &[], &["Permission denied (publickey).", HERE, "try"]);
    let silent = site.program("silent", "exit 255");
    attempts(&site, &silent, &[], &["failed", HERE]);
    let unknown = site.program("unknown", "echo 'ssh: Could not resolve hostname' >&2\nexit 255");
    attempts(&site, &unknown, &[], &["Could not resolve hostname"]);
    let talking = site.program("talking", "while :; do echo hello; done");
    attempts(&site, &talking, &[], &["start-up files"]);
    let killed = site.program("killed", "kill -9 $$");
    attempts(&site, &killed, &[], &["did not start as expected"]);
    // What a program or a shell says of itself, on either output.
    let cannot = site.program("cannot", "echo 'libc.so.6: version not found' >&2\nexit 1");
    attempts(&site, &cannot, &[], &["did not start as expected", "libc.so.6: version not found"]);
    let closed = site.program("closed", "printf 'This account is currently not available.'\nexit 1");
    let reason = "This account is currently not available.";
    attempts(&site, &closed, &[], &["did not start as expected", reason]);
    // Sending icdc there fails for the same reason.
    attempts(&site, &closed, &["--send-self"], &["cannot send icdc", "exit status: 1", reason]);
    let mute = site.program("mute", "exit 3");
    attempts(&site, &mute, &["--send-self"], &["did not do as it was told (exit status: 3)"]);
    let banner = "echo '*** Authorized use only ***' >&2\necho Welcome\necho \"It's closed for maintenance\"\nexit 1";
    let banner = site.program("banner", banner);
    attempts(&site, &banner, &[], &["Authorized use only", "It's closed for maintenance"]);
}

#[test]
fn a_far_side_without_icdc_or_with_another_is_told_with_what_to_do() {
    let site = Site::new();
    let ssh = site.ssh();
    attempts(&site, &ssh, &["--remote-icdc", "/no/such/icdc"], &["/no/such/icdc", "--remote-icdc", "--send-self"]);
    attempts(&site, &ssh, &["--remote-icdc", "no-such-icdc"], &["no-such-icdc", "--send-self"]);
    for (name, theirs) in [("newer", "3"), ("of an earlier protocol", "1")] {
        let program = site.program(name, &format!("echo ICDC-FAR-END {theirs}\ncat"));
        let words = ["another protocol", &format!("icdc/{theirs}"), "icdc/2", "--send-self"];
        attempts(&site, &ssh, &["--remote-icdc", &program], &words);
    }
    let older = site.program("older", "echo \"error: unrecognized subcommand 'far-end'\" >&2\nexit 2");
    attempts(&site, &ssh, &["--remote-icdc", &older], &["another protocol", "--send-self"]);
    let other = site.program("other", "echo this is something else");
    attempts(&site, &ssh, &["--remote-icdc", &other], &["did not start as expected", "--version"]);
    let garbled = site.program("garbled", "echo ICDC-FAR-END 2\nhead -c 100000 /dev/urandom\ncat >/dev/null");
    attempts(&site, &ssh, &["--remote-icdc", &garbled], &[&garbled]);
    let deserting = site.program("deserting", "echo ICDC-FAR-END 2");
    attempts(&site, &ssh, &["--remote-icdc", &deserting], &[&deserting]);
}

#[test]
fn a_far_end_that_has_run_is_not_replaced_because_a_login_fails() {
    let site = Site::new();
    data::file(&site.path("file"), 40 * MIB, 3);
    symlink(ICDC, site.directory("bin").join("icdc")).unwrap();
    let flaky = site.program(
        "flaky",
        "shift\ncount=$(cat count || echo 0)\necho $((count + 1)) >count\n\
         if test $count = 1; then echo 'no route' >&2; exit 1; fi\nexec sh -c \"$*\"",
    );
    fs::write(site.path("count"), "0").unwrap();
    let mut command = site.icdc(&["copy", "--json", "--send-self", "--rate", "160mbit", "--ssh", &flaky, "file"]);
    let path = format!("{}:/usr/bin:/bin", site.path("bin").display());
    let run = command.arg(site.by_ssh("arrived")).env("PATH", path).start();
    assert!(run.wait_for_bytes(8 * MIB), "{}", run.finish());
    kill_process(run.far_end().unwrap(), Signal::KILL).unwrap();
    let ended = run.finish().expect_code(0);
    assert!(!ended.stderr.contains("from its cache directory"), "{ended}");
    assert!(!site.path("home/.cache").exists(), "nothing is sent: {ended}");
    assert_eq!(fs::read_to_string(site.path("count")).unwrap().trim(), "3", "{ended}");
    assert_same(&site.path("file"), &site.path("arrived"));
}

#[test]
fn a_far_account_whose_home_is_not_there_takes_absolute_paths() {
    let site = Site::new();
    fs::write(site.path("file"), "file").unwrap();
    for home in ["/nonexistent", ""] {
        let homeless = site.program("homeless", &format!("shift\nHOME='{home}' exec sh -c \"$*\""));
        site.copy(&["--ssh", &homeless, "file"]).arg(site.by_ssh("arrived")).run().expect_code(0);
        assert_same(&site.path("file"), &site.path("arrived"));
        fs::remove_file(site.path("arrived")).unwrap();
    }
}

#[test]
fn noise_of_the_far_shell_does_no_harm() {
    let site = Site::new();
    fs::write(site.path("file"), "file").unwrap();
    let noisy =
        site.program("noisy", "shift\necho Welcome\nprintf 'no end of line'\necho warning >&2\nexec sh -c \"$*\"");
    let ended = site.copy(&["--ssh", &noisy, "file"]).arg(site.by_ssh("arrived")).run().expect_code(0);
    assert!(ended.stderr.contains("warning"), "what ssh says is passed on: {ended}");
    assert_same(&site.path("file"), &site.path("arrived"));
}

#[test]
fn a_shell_that_prints_without_end_is_told_with_what_to_do() {
    let site = Site::new();
    data::file(&site.path("file"), 9 * MIB, 2);
    let printing = |bytes: u32| {
        let body = format!("shift\nhead -c {bytes} /dev/zero | tr '\\0' x\necho\nexec sh -c \"$*\"");
        site.program(&format!("printing-{bytes}"), &body)
    };
    for via in ["direct", "ssh"] {
        let command = printing(20_000);
        let options = ["--ssh", &command, "--via", via, "--streams", "3", "file"];
        site.copy(&options).arg(site.by_ssh(via)).run().expect_code(0);
        assert_same(&site.path("file"), &site.path(via));
    }
    let command = printing(8 << 20);
    let ended = site.copy(&["--ssh", &command, "file"]).arg(site.by_ssh("none")).run().expect_code(3);
    assert!(ended.stderr.contains("start-up files"), "{ended}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended}");
}

#[test]
fn a_far_side_that_prints_a_megabyte_first_is_heard_and_named() {
    let site = Site::new();
    fs::write(site.path("file"), "file").unwrap();
    let noisy = site
        .program("noisy", "shift\necho Message of the day\nhead -c 1100000 /dev/zero | tr '\\0' x\nexec sh -c \"$*\"");
    for via in ["direct", "ssh"] {
        let mut command = site.copy(&["--ssh", &noisy, "--via", via, "--streams", "2", "file"]);
        let ended = command.arg(site.by_ssh("arrived")).run().expect_code(0);
        assert_eq!(ended.stderr.matches("start-up files").count(), 1, "{ended}");
        assert!(ended.stderr.contains("\"Message of the day\""), "{ended}");
        assert_same(&site.path("file"), &site.path("arrived"));
    }
}

#[test]
fn the_command_is_honoured_as_written() {
    let site = Site::new();
    fs::write(site.path("file"), "file").unwrap();
    let log = site.path("log");
    let body = format!(
        "printf '%s\\n' \"$WORD\" \"$@\" >'{}'\nwhile [ \"$1\" != {HERE} ]; do shift; done\nshift\nexec sh -c \"$*\"",
        log.display()
    );
    let wrapper = site.program("a wrapper", &body);
    let ssh = format!("WORD='two words' '{wrapper}' -o 'Option=a b' -p 22");
    site.copy(&["--ssh", &ssh, "file"]).arg(site.by_ssh("arrived")).run().expect_code(0);
    let said = fs::read_to_string(log).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..6], ["two words", "-o", "Option=a b", "-p", "22", HERE], "{said}");
    let command = format!("sh -c 'icdc=$1; shift; exec \"$icdc\" far-end \"$@\"' sh {ICDC} ");
    assert!(lines[6].strip_prefix(&command).is_some_and(|word| word.parse::<Bootstrap>().is_ok()), "{}", lines[6]);
    assert_eq!(lines.len(), 7, "no option of OpenSSH's is given to another program: {said}");
}

#[test]
fn a_data_port_that_does_not_answer_is_told_with_what_to_do() {
    let site = Site::new();
    fs::write(site.path("file"), "file").unwrap();
    let taken = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0")).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    attempts(&site, &site.ssh(), &["--remote-icdc", ICDC, "--port", &port], &[&port]);

    let Some(hosts) = Pair::new() else { return };
    let ssh = site.ssh_to(&hosts.far);
    let push = |options: &[&str]| {
        let mut command = site.copy(&["--ssh", &ssh]);
        command.args(["--via", "direct"]).args(options).arg("file").arg(site.on_host(hosts.far.address(), "arrived"));
        hosts.near.run(&command).run()
    };
    push(&[]).expect_code(0);
    fs::remove_file(site.path("arrived")).unwrap();
    // A firewall that answers.
    let route = |verb: &str, kind: &str| {
        let mut command = hosts.near.command("ip");
        succeed(command.args(["route", verb, kind, &format!("{}/32", hosts.far.address())]));
    };
    for kind in ["prohibit", "unreachable"] {
        route("add", kind);
        kept_out(push(&["--port", "5000-5003"]), &["was reached by ssh", "5000", "firewall", "--port LO-HI"]);
        route("del", kind);
    }
    // One that swallows everything: the far host's answers find no way back.
    let mut back = hosts.far.command("ip");
    succeed(back.args(["route", "add", "blackhole", "10.77.0.1/32"]));
    let ended = push(&[]);
    assert_eq!(ended.stderr.matches(NOT_YET).count(), 1, "it is told before the end: {ended}");
    kept_out(ended, &["was reached by ssh", "no answer", "--port LO-HI"]);
    assert!(!site.path("arrived").exists());
}

/// A wrapper to a far side that has no icdc and a cache of its own.
fn bare(site: &Site) -> (String, PathBuf) {
    let cache = site.directory("far/cache");
    let body = format!(
        "shift\necho login >>'{}'\nXDG_CACHE_HOME='{}' HOME='{}' PATH=/usr/bin:/bin exec sh -c \"$*\"",
        site.path("far/logins").display(),
        cache.display(),
        site.directory("far/home").display()
    );
    (site.program("ssh-bare", &body), cache.join("icdc"))
}

#[test]
fn a_far_icdc_that_is_not_on_the_path_is_found_in_one_login() {
    let site = Site::new();
    let (ssh, _) = bare(&site);
    data::file(&site.path("file"), 9 * MIB, 2);
    let copy = |options: &[&str], destination: &str| {
        let mut command = site.icdc(&["copy", "--json", "--ssh", &ssh]);
        command.args(options).arg("file").arg(site.by_ssh(destination)).run()
    };
    let places = ["has no `icdc` in PATH, ~/.local/bin or /usr/local/bin", "--remote-icdc", "--send-self"];
    kept_out(copy(&[], "none"), &places);

    let beside = site.directory("far/home/.local/bin");
    fs::copy(ICDC, beside.join("icdc")).unwrap();
    let logins = site.path("far/logins");
    fs::remove_file(&logins).unwrap();
    copy(&["--via", "direct"], "found").expect_code(0);
    assert_same(&site.path("file"), &site.path("found"));
    assert_eq!(fs::read_to_string(&logins).unwrap(), "login\n");
    copy(&["--via", "ssh", "--streams", "2"], "by-ssh").expect_code(0);
    assert_same(&site.path("file"), &site.path("by-ssh"));
    // A place that is named is the only one.
    kept_out(copy(&["--remote-icdc", "other/icdc"], "none"), &["has no `other/icdc`: "]);

    // Messages name the program that was started.
    let found = beside.join("icdc");
    fs::remove_file(&found).unwrap();
    fs::copy(site.program("other", "echo ICDC-FAR-END 1\ncat"), &found).unwrap();
    kept_out(copy(&[], "none"), &[found.to_str().unwrap(), "another protocol"]);
    // What it brings along is taken in its place.
    copy(&["--send-self"], "sent").expect_code(0);
    assert_same(&site.path("file"), &site.path("sent"));
    // Nor does one do that cannot run, as where the libraries are too old for it.
    fs::copy(site.program("broken", "echo 'libc.so.6: too old' >&2\nexit 1"), &found).unwrap();
    kept_out(copy(&[], "none"), &[found.to_str().unwrap(), "libc.so.6: too old", "--send-self"]);
    copy(&["--send-self"], "sent-again").expect_code(0);
    assert_same(&site.path("file"), &site.path("sent-again"));

    // The one on the path comes first.
    let on_path = site.directory("far/path");
    std::os::unix::fs::symlink(ICDC, on_path.join("icdc")).unwrap();
    let body = format!(
        "shift\nHOME='{}' PATH='{}':/usr/bin:/bin exec sh -c \"$*\"",
        site.path("far/home").display(),
        on_path.display()
    );
    let ssh = site.program("ssh-path", &body);
    site.icdc(&["copy", "--ssh", &ssh, "file"]).arg(site.by_ssh("on-path")).run().expect_code(0);
    assert_same(&site.path("file"), &site.path("on-path"));
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

#[test]
fn send_self_brings_the_program_along_once_and_never_overwrites() {
    let site = Site::new();
    let (ssh, cache) = bare(&site);
    let tree = data::tree(&site.path("tree"), 1, &Shape { small: 10, ..Shape::default() });
    let attempt = |options: &[&str], destination: &str| {
        let mut command = site.icdc(&["copy", "--json", "--ssh", &ssh]);
        command.args(options).arg("tree").arg(site.by_ssh(destination)).run()
    };
    kept_out(attempt(&[], "none"), &["has no `icdc`", "--send-self"]);
    attempt(&["--send-self"], "one").expect_code(0);
    assert_same(&tree, &site.path("one"));
    let [program] = &entries(&cache)[..] else { panic!("{:?}", entries(&cache)) };
    assert!(support::compare::same_contents(program, Path::new(ICDC)));
    let before = fs::metadata(program).unwrap();
    assert_eq!(before.mode() & 0o777, 0o700);

    let logins = site.path("far/logins");
    fs::remove_file(&logins).unwrap();
    let again = attempt(&["--send-self", "--via", "direct"], "two").expect_code(0);
    assert_eq!(fs::read_to_string(&logins).unwrap(), "login\n", "it is found by the login that starts it");
    assert!(again.all("notice").next().is_none(), "{again}");
    assert_same(&tree, &site.path("two"));
    let after = fs::metadata(program).unwrap();
    assert_eq!(
        (before.ino(), before.mtime(), before.mtime_nsec()),
        (after.ino(), after.mtime(), after.mtime_nsec()),
        "it is reused"
    );
    assert_eq!(entries(&cache).len(), 1);

    // Further logins start the same program.
    attempt(&["--send-self", "--via", "ssh", "--streams", "2"], "by-ssh").expect_code(0);
    assert_same(&tree, &site.path("by-ssh"));

    // Pulling works the same way.
    let mut command = site.icdc(&["copy", "--ssh", &ssh, "--send-self"]);
    command.arg(site.by_ssh("tree")).arg("pulled").run().expect_code(0);
    assert_same(&tree, &site.path("pulled"));

    // A file in the cache that is not what its name says is neither run nor replaced.
    let evidence = site.path("evidence");
    let tampered = format!("#!/bin/sh\ntouch '{}'\nexec '{ICDC}' \"$@\"\n", evidence.display());
    fs::write(program, &tampered).unwrap();
    kept_out(attempt(&["--send-self"], "three"), &[program.to_str().unwrap(), "remove"]);
    assert_eq!(fs::read_to_string(program).unwrap(), tampered);
    assert!(!evidence.exists() && !site.path("three").exists());

    // Neither is a link followed.
    fs::remove_file(program).unwrap();
    std::os::unix::fs::symlink(site.path("precious"), program).unwrap();
    kept_out(attempt(&["--send-self"], "four"), &[program.to_str().unwrap()]);
    assert!(!site.path("precious").exists());
    fs::remove_file(program).unwrap();

    // Another release is replaced by this one for the run, not in its place.
    let other = site.program("far/other", "echo ICDC-FAR-END 1\ncat");
    let beside = site.directory("far/bin");
    fs::copy(other, beside.join("icdc")).unwrap();
    let with_other = site.program(
        "ssh-other",
        &format!(
            "PATH={}:$PATH exec sh -c 'shift; XDG_CACHE_HOME={} eval \"$*\"' sh \"$@\"",
            beside.display(),
            cache.parent().unwrap().display()
        ),
    );
    let mut command = site.icdc(&["copy", "--ssh", &with_other, "--send-self", "tree"]);
    command.arg(site.by_ssh("five")).run().expect_code(0);
    assert_same(&tree, &site.path("five"));
    assert!(fs::read_to_string(beside.join("icdc")).unwrap().contains("FAR-END 1"));
    assert_no_leftovers(site.root());
}

#[test]
fn send_self_where_there_is_no_room_for_it_is_told() {
    if !is_root() {
        return skip("a far side that cannot write is made with a file in the way only");
    }
    let site = Site::new();
    let (ssh, cache) = bare(&site);
    fs::write(&cache, "in the way").unwrap();
    attempts(&site, &ssh, &["--send-self"], &["cannot send icdc to"]);
    assert_eq!(fs::read(cache).unwrap(), b"in the way");
}

#[test]
fn send_self_neither_makes_nor_runs_anything_beneath_a_directory_of_others() {
    let site = Site::new();
    let (ssh, cache) = bare(&site);
    fs::write(site.path("file"), "file").unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let open = cache.parent().unwrap();
    // Others get as far as that.
    mode(site.root(), 0o755);
    let attempt = |options: &[&str], destination: &str| {
        let mut command = site.icdc(&["copy", "--json", "--send-self", "--ssh", &ssh]);
        command.args(options).arg("file").arg(site.by_ssh(destination)).run()
    };
    for others_may_write in [0o777, 0o775] {
        mode(open, others_may_write);
        kept_out(
            attempt(&[], "none"),
            &["cannot send icdc", "others may write to", open.to_str().unwrap(), "chmod go-w"],
        );
        assert!(entries(open).is_empty(), "nothing is made there");
    }
    mode(open, 0o755);
    attempt(&["--via", "ssh", "--streams", "2"], "one").expect_code(0);
    assert_same(&site.path("file"), &site.path("one"));
    // Nor is one run that was brought before.
    mode(open, 0o777);
    kept_out(attempt(&[], "none"), &["others may write to", open.to_str().unwrap()]);
    assert!(!site.path("none").exists());
}

#[test]
fn a_restricted_shell_starts_what_has_a_path_at_each_login() {
    if !support::has_program("bash") {
        return skip("bash is not installed");
    }
    let site = Site::new();
    data::file(&site.path("file"), 9 * MIB, 2);
    let beside = site.directory("far/home/.local/bin");
    symlink(ICDC, beside.join("icdc")).unwrap();
    let body = format!(
        "shift\nHOME='{}' PATH=/usr/bin:/bin exec bash --restricted -c \"$*\"",
        site.path("far/home").display()
    );
    let ssh = site.program("ssh-restricted", &body);
    // Found there, named, and sent: each is known by its path at the logins that carry data.
    for (name, options) in [("found", &[][..]), ("named", &["--remote-icdc", ICDC]), ("sent", &["--send-self"])] {
        if name == "sent" {
            fs::remove_file(beside.join("icdc")).unwrap();
        }
        let mut command = site.icdc(&["copy", "--ssh", &ssh, "--via", "ssh", "--streams", "2"]);
        command.args(options).arg("file").arg(site.by_ssh(name)).run().expect_code(0);
        assert_same(&site.path("file"), &site.path(name));
    }
}

#[test]
fn what_the_configuration_of_ssh_asks_of_a_login_to_work_in_does_no_harm() {
    let site = Site::new();
    let Some(sshd) = Sshd::start(&site, "") else { return };
    data::file(&site.path("file"), 9 * MIB, 2);
    let config = site.path("sshd/ssh_config");
    let plain = fs::read_to_string(&config).unwrap();
    // A port that another login forwards already.
    let taken = TcpListener::bind((HERE, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let forwards = format!("LocalForward {HERE}:{port} {HERE}:22\n ExitOnForwardFailure yes");
    let local = format!("PermitLocalCommand yes\n LocalCommand touch '{}'", site.path("touched").display());
    let asked = ["RemoteCommand tmux new -A -s work", "RequestTTY force", &forwards, &local];
    for (number, lines) in asked.iter().enumerate() {
        fs::write(&config, format!("{plain} {lines}\n")).unwrap();
        for via in ["direct", "ssh"] {
            let name = format!("{via}-{number}");
            let far = format!("far:{}", site.path(&name).display());
            let options = ["--ssh", &sshd.command, "--via", via, "--streams", "2", "file", &far];
            let ended = site.copy(&options).run().expect_code(0);
            assert_same(&site.path("file"), &site.path(&name));
            assert!(!ended.stderr.contains("start-up files"), "{lines}: {ended}");
        }
    }
    assert!(!site.path("touched").exists());
}

#[test]
fn data_takes_no_other_family_of_addresses_through_ssh() {
    let site = Site::new();
    let Some(sshd) = Sshd::start(&site, "") else { return };
    fs::write(site.path("file"), "file").unwrap();
    let far = format!("far:{}", site.path("arrived").display());
    let copy = |option: &str| site.copy(&["--ssh", &sshd.command, "--via", "ssh", option, "file", &far]).run();
    // The server has an address of IPv4 alone.
    kept_out(copy("-6"), &["ssh to far failed"]);
    assert!(!site.path("arrived").exists());
    copy("-4").expect_code(0);
    assert_same(&site.path("file"), &site.path("arrived"));
}

#[test]
fn a_real_ssh_carries_a_copy_in_both_directions() {
    let site = Site::new();
    let Some(sshd) = Sshd::start(&site, "") else { return };
    let tree = data::tree(&site.path("tree"), 1, &Shape { large: vec![30 * MIB], ..Shape::default() });
    let far = |name: &str| format!("far:{}", site.path(name).display());
    // The data connection goes to the host that ssh's configuration names.
    site.copy(&["--ssh", &sshd.command, "tree", &far("pushed")]).run().expect_code(0);
    assert_same(&tree, &site.path("pushed"));
    site.copy(&["--ssh", &sshd.command, &far("tree"), "pulled"]).run().expect_code(0);
    assert_same(&tree, &site.path("pulled"));
    let between = site.copy(&["--ssh", &sshd.command, &far("tree/"), &far("between")]).run().expect_code(0);
    assert_same(&tree, &site.path("between"));
    assert_eq!(between.all("connected").count(), 1, "{between}");
    // Names that a shell would take apart.
    let odd = "odd 'name' $(touch x); *";
    fs::write(site.path(odd), "odd").unwrap();
    site.copy(&["--ssh", &sshd.command, odd, &far("odd copy $(x)")]).run().expect_code(0);
    assert_same(&site.path(odd), &site.path("odd copy $(x)"));
    assert!(!site.path("x").exists());
    assert_no_leftovers(site.root());

    // ssh's own refusals.
    let config = site.path("sshd/ssh_config");
    fs::write(
        site.path("sshd/known_hosts"),
        format!("far {}", fs::read_to_string(site.path("sshd/user.pub")).unwrap()),
    )
    .unwrap();
    let ended = site.copy(&["--ssh", &sshd.command, "tree", &far("no")]).run();
    kept_out(ended, &["ssh to far failed", "erification failed"]);
    let text = fs::read_to_string(&config).unwrap();
    fs::write(
        &config,
        text.replace("StrictHostKeyChecking yes", "StrictHostKeyChecking no").replace("sshd/user\n", "sshd/host\n"),
    )
    .unwrap();
    fs::remove_file(site.path("sshd/known_hosts")).unwrap();
    let ended = site.copy(&["--ssh", &sshd.command, "tree", &far("no")]).run();
    kept_out(ended, &["ssh to far failed", "ermission denied"]);
    assert!(!site.path("no").exists());
}

/// Waits for the data connection of a run and answers its address.
fn data_port(run: &Run) -> String {
    let port = std::cell::RefCell::new(String::new());
    assert!(run.wait_for(|event| {
        if event["type"] == "connected" {
            *port.borrow_mut() = event["peer"].as_str().unwrap().to_owned();
        }
        event["type"] == "connected"
    }));
    port.into_inner()
}

#[test]
fn strangers_on_the_data_port_of_a_running_copy_change_nothing() {
    let site = Site::new();
    let ssh = site.ssh();
    data::file(&site.path("file"), 30 * MIB, 1);
    for (source, destination) in [("file".into(), site.by_ssh("arrived")), (site.by_ssh("file"), "pulled".into())] {
        let mut command = site.copy(&["--ssh", &ssh, "--rate", "120mbit"]);
        let run = command.arg(source).arg(&destination).start();
        let address = data_port(&run);
        let mut kept = Vec::new();
        for round in 0..40 {
            // A scan connects and leaves; others say something, or nothing and stay.
            let mut stranger = TcpStream::connect(&address).unwrap();
            stranger.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
            match round % 4 {
                0 => drop(stranger),
                1 => {
                    let _ = stranger.write_all(b"GET / HTTP/1.0\r\n\r\n");
                    let mut answer = Vec::new();
                    let _ = stranger.read_to_end(&mut answer);
                    assert!(!String::from_utf8_lossy(&answer).contains("icdc"), "{answer:?}");
                }
                2 => {
                    let _ = stranger.write_all(&support::Noise::new(round).bytes(100_000));
                    kept.push(stranger);
                }
                _ => kept.push(stranger),
            }
        }
        let ended = run.finish().expect_code(0);
        assert_eq!(ended.all("reconnecting").count(), 0, "{ended}");
        assert_eq!(ended.number("bytes_sent"), 30 * MIB, "{ended}");
        let arrived = if site.path("arrived").exists() { "arrived" } else { "pulled" };
        assert_same(&site.path("file"), &site.path(arrived));
        fs::remove_file(site.path(arrived)).unwrap();
        assert_eq!(ended.stderr, "", "{ended}");
    }
    assert_no_leftovers(site.root());
}
