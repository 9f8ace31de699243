//! Command lines that make no sense: exit code 2, a message that says what to do, and nothing else.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::refusals::{Refusal, refuse};
use crate::support::{ICDC, has_program, skip, succeed};

fn run(directory: &Path, words: &[&str]) -> Output {
    Command::new(ICDC)
        .args(words)
        .current_dir(directory)
        .env("HOME", directory)
        .env_remove("XDG_CONFIG_HOME")
        .output()
        .unwrap()
}

/// Asserts exit code 2, silence on standard output, and a message that contains `expected`.
fn refused(words: &[&str], expected: &str) {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("there"), "data").unwrap();
    let output = run(directory.path(), words);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{words:?}: {message}");
    assert!(output.stdout.is_empty(), "{words:?}");
    assert!(message.starts_with("icdc: "), "{words:?}: {message}");
    assert!(message.contains(expected), "{words:?}: {expected:?} is missing in {message}");
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{words:?} left something behind: {left:?}");
}

#[test]
fn unknown_words() {
    refused(&["fly"], "fly");
    refused(&["copy", "--fast", "there", "b"], "--fast");
    refused(&["serve", "--anonymous"], "--anonymous");
    refused(&["serve", "extra"], "extra");
    refused(&["keygen", "--force"], "--force");
    refused(&["far-end", "extra"], "extra");
    refused(&["generate", "poems", "."], "poems");
}

#[test]
fn copy_needs_a_source_and_a_destination() {
    refused(&["copy"], "SRC");
    refused(&["copy", "there"], "DST");
}

#[test]
fn a_source_that_is_not_there() {
    refused(&["copy", "missing", "b"], "missing");
    refused(&["copy", "", "b"], "empty path");
}

#[test]
fn places_that_are_none() {
    refused(&["copy", "there", "http://h/p"], "icdc://HOST/PATH");
    refused(&["copy", "there", "icdc://h:99999/p"], "1 to 65535");
    refused(&["copy", "there", "icdc://user@h/p"], "--identity");
    refused(&["copy", "--", "-oProxyCommand=id:a", "b"], "no host");
    refused(&["copy", "there", "u@-o:b"], "no host");
}

#[test]
fn values_that_are_none() {
    for (option, value, expected) in [
        ("--rate", "fast", "mbit"),
        ("--rate", "900", "mbit"),
        ("--rate", "0bit", "8 kbit/s"),
        ("--rate", "-1mbit", "mbit"),
        ("--ring", "1KiB", "16MiB"),
        ("--ring", "big", "MiB"),
        ("--streams", "0", "from 1 to 64"),
        ("--streams", "65", "from 1 to 64"),
        ("--port", "0", "65535"),
        ("--port", "5010-5000", "5000-5010"),
        ("--cc", "not a name", "cubic"),
        ("--preserve", "mode,dates", "xattr"),
        ("--preserve", "mode,security", "add owner"),
        ("--chmod", "u=rwz", "D2755,F644"),
        ("--usermap", "anna", "FROM:TO"),
        ("--groupmap", "9-1:staff", "1000-1999"),
        ("--progress", "sometimes", "auto"),
        ("--retry-for", "10", "min"),
        ("--report", "no/such/directory/r.html", "--report"),
        ("--receipt", "no/such/directory/receipt", "--receipt"),
        ("--receipt", ".", "no name of a file"),
    ] {
        refused(&["copy", &format!("{option}={value}"), "there", "b"], expected);
    }
    refused(&["serve", "--listen", "localhost:1"], "192.0.2.7:2633");
    refused(&["keygen", "--trust", "a/b", "icdc-ed25519 AAAA"], "HOST:PORT");
}

#[test]
fn options_that_contradict_each_other() {
    refused(&["copy", "-4", "-6", "there", "b"], "cannot be used with");
    refused(&["copy", "--dry-run", "--report", "r.html", "there", "b"], "cannot be used with");
    refused(&["copy", "--dry-run", "--receipt", "r", "there", "b"], "cannot be used with");
    refused(&["copy", "--existing", "--receipt", "r", "there", "b"], "cannot be used with");
    refused(&["copy", "--send-self", "--remote-icdc", "/bin/icdc", "there", "h:b"], "cannot be used with");
    refused(&["copy", "--send-self", "there", "b"], "ssh");
    refused(&["keygen", "--identity", "i", "--trust", "h", "icdc-ed25519 AAAA"], "cannot be used with");
    refused(&["keygen", "--trust", "h"], "KEY");
    refused(&["keygen", "icdc-ed25519 AAAA"], "--trust");
    refused(&["keygen", "--known-hosts", "k"], "--trust");
}

#[test]
fn options_of_other_copiers_get_what_does_it_here() {
    for (option, advice) in [
        ("--resume", "the same command goes on"),
        ("--progress=x", "takes auto"),
        ("--rsync-path=/opt/rsync", "--remote-icdc PATH"),
        ("--log-file=log", "--json >FILE"),
        ("--timeout=30", "--retry-for TIME"),
        ("--no-perms", "--preserve mode,times"),
        ("--delete-before", "write --delete"),
        ("--delete-during", "write --delete"),
        ("--sync-level=checksum", "checked by BLAKE3"),
        ("--transfers=8", "--streams N"),
        ("-a", "--preserve all"),
        ("-r", "not needed"),
        ("-C", "--compress LEVEL"),
        ("-P", "not needed"),
        ("-i", "--ssh 'ssh -i FILE'"),
        ("-J", "--ssh 'ssh -J HOST'"),
        ("--bwlimit=5m", "--rate RATE"),
        ("--recursive", "not needed"),
        ("--compress-level=3", "--compress LEVEL"),
        ("--partial", "not needed"),
        ("--append", "there is none"),
        ("--copy-dest=old", "write --link-dest DIR"),
        ("-b", "write --backup-dir DIR"),
        ("--backup", "write --backup-dir DIR"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("there"), "data").unwrap();
        refused(&["copy", option, "there", "b"], advice);
        let output = run(directory.path(), &["copy", option, "there", "b"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!message.contains("a similar argument") && !message.contains("as a value"), "{option}: {message}");
        assert_eq!(message.matches("tip:").count(), 1, "{option}: {message}");
    }
    // All of a line at once, each once.
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), &["copy", "-a", "--append", "-C", "-a", "there", "b", "--", "-R"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(message.matches("tip:").count(), 3, "{message}");
    // A cluster is told letter by letter.
    for advice in ["-a: not needed", "-C: rarely needed", "-P: not needed"] {
        refused(&["copy", "-avCP", "there", "b"], advice);
    }
    refused(&["copy", "--verfy", "there", "b"], "'--verify'");
    // Nobody means the name of a file that is not there.
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("there"), "data").unwrap();
    let told = |words: &[&str]| String::from_utf8(run(directory.path(), words).stderr).unwrap();
    let message = told(&["copy", "--fast", "there", "b"]);
    assert!(!message.contains("as a value"), "{message}");
    fs::write(directory.path().join("--fast"), "data").unwrap();
    let message = told(&["copy", "--fast", "there", "b"]);
    assert!(message.contains("-- --fast"), "{message}");
    refused(&["measure", "-n", "there"], "-n");
}

#[test]
fn options_of_other_copiers_that_mean_the_same_are_taken() {
    for options in [
        &["-n"] as &[_],
        &["-nv"],
        &["-e", "ssh -p 2222"],
        &["--rsh=ssh -p 2222"],
        &["--max-age=7d"],
        &["--min-age=1s", "--silent"],
    ] {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("src")).unwrap();
        let output = run(directory.path(), &[&["copy"], options, &["src/", "dst"]].concat());
        assert_eq!(output.status.code(), Some(0), "{options:?}: {output:?}");
        let is_dry = options[0].starts_with("-n");
        assert_eq!(directory.path().join("dst").exists(), !is_dry, "{options:?}");
    }
    for option in ["--delete-after", "--delete-delay"] {
        let directory = tempfile::tempdir().unwrap();
        for name in ["src/a", "dst/a", "dst/extra"] {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        let output = run(directory.path(), &["sync", option, "src/", "dst"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(!directory.path().join("dst/extra").exists(), "{option}");
    }
    for word in ["--ipv4", "--ipv6", "-e=x", "--rsh=x"] {
        refused(&["copy", word, "--bind", "none-such", "there", "a:x"], "no network device");
    }
}

#[test]
fn every_option_of_rsync_is_taken_or_answered() {
    if !has_program("rsync") {
        return skip("rsync is not installed");
    }
    let help = succeed(Command::new("rsync").arg("--help"));
    let (_, options) = help.split_once("\nOptions\n").unwrap();
    let options: Vec<&str> = options.lines().map_while(|line| line.split_whitespace().next()).collect();
    assert!(options.len() > 100, "{help}");
    let directory = tempfile::tempdir().unwrap();
    let not_answered: Vec<&str> = options
        .into_iter()
        .map(|option| option.trim_end_matches(','))
        .filter(|option| *option != "--no-OPTION" && *option != "--help" && *option != "--version")
        .filter(|option| {
            let output = run(directory.path(), &["copy", option, "there", "b"]);
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            message.contains("unexpected argument") && !message.contains("tip:")
        })
        .collect();
    assert!(not_answered.is_empty(), "{not_answered:?}");
}

#[test]
fn commands_and_places_of_other_programs_get_what_does_it_here() {
    for (words, advice) in [
        (&["rclone", "sync", "a", "b:c"] as &[_], "icdc sync --delete for rclone sync"),
        (&["scp", "-P", "2222", "there", "h:"], "write icdc copy"),
        (&["cp", "-r", "there", "b"], "write icdc copy"),
        (&["globus", "transfer"], "icdc copy HOST:PATH HOST:PATH"),
        (&["transfer"], "icdc copy HOST:PATH HOST:PATH"),
        (&["login"], "icdc keygen"),
        (&["copy", "-P", "2222", "there", "h:"], "--ssh 'ssh -p PORT'"),
        (&["copy", "there", "rsync://h/module/"], "daemon of rsync"),
        (&["copy", "there", "h::module/"], "daemon of rsync"),
        (&["copy", "there", "sftp://h/x"], "[USER@]HOST:PATH"),
        (&["copy", "there", "gsiftp://h/x"], "GridFTP"),
        (&["copy", "there", "s3://bucket/x"], "object stores"),
        (&["copy", "file:///srv/x", "b"], "the path alone"),
    ] {
        refused(words, advice);
    }
}

#[test]
fn quiet_is_quiet_but_for_errors() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        fs::create_dir(directory.path().join(name)).unwrap();
        fs::write(directory.path().join(name).join("x"), name).unwrap();
    }
    // Two of one name are told of without the option.
    let output = run(directory.path(), &["copy", "a/", "b/", "aloud"]);
    assert!(!output.stderr.is_empty() && !output.stdout.is_empty());
    for option in ["-q", "--quiet"] {
        let output = run(directory.path(), &["copy", option, "a/", "b/", "c"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(output.stderr.is_empty() && output.stdout.is_empty(), "{output:?}");
        assert_eq!(fs::read_to_string(directory.path().join("c/x")).unwrap(), "b");
        let output = run(directory.path(), &["copy", option, "missing", "a/x", "d/"]);
        assert!(output.stdout.is_empty() && !output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("missing"), "{output:?}");
    }
    refused(&["copy", "-q", "-v", "there", "b"], "cannot be used with");
}

#[test]
fn commands_that_are_not_for_users_are_not_proposed() {
    let directory = tempfile::tempdir().unwrap();
    for word in ["sesion", "far-ends", "generat"] {
        let output = run(directory.path(), &[word]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(!message.contains("similar"), "{message}");
    }
    refused(&["measur"], "'measure'");
}

#[test]
fn patterns_that_take_something_back_are_refused() {
    for pattern in ["!*.nc", "+ *.nc", "- *.o"] {
        let option = format!("--exclude={pattern}");
        refused(&["copy", &option, "there", "b"], "--exclude");
        refused(&["copy", &option, "there", "b"], "'[");
        refused(&["plan", "--shards", "2", "--out", "plan", &option, "there", "b"], "'[");
    }
    refused(&["copy", "--exclude", "!*.nc", "there", "b"], "write --include 'PATTERN' before what excludes it");
    // As the message says.
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("a")).unwrap();
    for name in ["!x", "+ x", "y"] {
        fs::write(directory.path().join("a").join(name), name).unwrap();
    }
    let output = run(directory.path(), &["copy", "--exclude", "[\\!]*", "--exclude", "[+] *", "a", "b"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let left: Vec<_> =
        fs::read_dir(directory.path().join("b")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["y"]);
}

#[test]
fn a_forgotten_colon_is_hinted_at() {
    refused(&["copy", "there", "alice@host"], "write alice@host:,");
    refused(&["copy", "there", "alice@host/in"], "write alice@host:/in");
    refused(&["copy", "alice@host", "b"], "write alice@host:,");
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("alice@host"), "data").unwrap();
    assert_eq!(run(directory.path(), &["copy", "alice@host", "./bob@host"]).status.code(), Some(0));
    assert_eq!(run(directory.path(), &["copy", "./bob@host", "alice@host"]).status.code(), Some(0));
}

#[test]
fn a_daemon_of_rsync_is_hinted_at() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a"), "a").unwrap();
    for place in ["far.example.org::x", "user@far.example.org::module/x"] {
        let output = run(directory.path(), &["copy", "--ssh", "false", "a", place]);
        assert_eq!(output.status.code(), Some(2), "{place}");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("two colons") && told.contains("icdc://HOST/PATH"), "{told}");
    }
}

#[test]
fn the_summary_names_the_destination_and_its_host() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a"), "a").unwrap();
    // Without its colon a host is a file here.
    let output = run(directory.path(), &["copy", "a", "far"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = format!(" to {} on this host", directory.path().canonicalize().unwrap().join("far").display());
    assert!(told.lines().next().unwrap().ends_with(&expected), "{told}");
}

#[test]
fn patterns_that_no_shell_expanded_are_hinted_at() {
    refused(&["copy", "*.dat", "b"], "for the shell to expand");
}

#[test]
fn behind_two_dashes_everything_is_a_name() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["-rf", "--help", "-", "--"] {
        fs::write(directory.path().join(name), name).unwrap();
    }
    for words in [&["-rf", "--help", "--", "./-", "dst/"] as &[_], &["--help", "--version"], &["-rf", "--help", "dst"]]
    {
        let output = run(directory.path(), &[&["copy", "--"], words].concat());
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    for name in ["-rf", "--help", "-", "--"] {
        assert_eq!(fs::read_to_string(directory.path().join("dst").join(name)).unwrap(), name);
    }
    assert_eq!(fs::read_to_string(directory.path().join("--version")).unwrap(), "--help");
}

#[test]
fn a_host_of_bytes_that_are_no_text() {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(ICDC)
        .arg("copy")
        .arg(std::ffi::OsStr::from_bytes(b"\xff:a"))
        .arg("b")
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("icdc: "));
}

#[test]
fn daemons_need_a_home_only_if_the_files_are_not_named() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("there"), "data").unwrap();
    let output = Command::new(ICDC)
        .args(["copy", "there", "icdc://127.0.0.1:1/"])
        .current_dir(directory.path())
        .env_remove("HOME")
        .env_remove("XDG_CONFIG_HOME")
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("--identity"), "{message}");
}

#[test]
fn a_route_where_there_is_no_choice() {
    let daemon = ["copy", "--via", "ssh", "there", "icdc://host/x"];
    let between = ["copy", "--via", "ssh", "a:x", "b:y"];
    let mixed = ["copy", "--via", "back", "icdc://a/x", "b:y"];
    let here = ["copy", "--via", "direct", "there", "b"];
    let login = ["copy", "--via", "socks5://anna:x@host:1", "there", "a:x"];
    let relay = ["copy", "--via", "relay:host", "there", "a:x"];
    for words in [daemon, between, mixed, here, login, relay] {
        refused(&words, "--via");
    }
    refused(&["copy", "--proxy-login", "file", "there", "a:x"], "--proxy-login");
}

#[test]
fn devices_that_no_connection_can_leave_by() {
    let copy = |words: &[&'static str], expected| {
        refused(&[&["copy", "--bind"], words, &["there", "a:x"]].concat(), "--bind");
        refused(&[&["copy", "--bind"], words, &["there", "a:x"]].concat(), expected);
    };
    copy(&["none-such"], "no network device none-such; it has ");
    copy(&["lo,none-such"], "no network device none-such");
    copy(&["192.0.2.1"], "no address 192.0.2.1");
    copy(&["a/b"], "name of a network device");
    copy(&["fe80::1"], "link-local");
    copy(&["lo,lo", "--streams", "1"], "--streams");
    copy(&["127.0.0.1", "-6"], "no IPv6 address");
    copy(&["lo", "--via", "ssh"], "--via");
    copy(&["lo", "--via", "back"], "--via");
    refused(&["copy", "--bind", "lo", "there", "b"], "leave it out");
    refused(&["copy", "--bind", "lo", "a:x", "b:y"], "leave it out");
    refused(&["measure", "--bind", "none-such", "host"], "no network device none-such");
    refused(&["doctor", "--bind", "none-such", "host"], "no network device none-such");
}

#[test]
fn a_kernel_that_asks_for_privileges_is_told_with_what_helps() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(ICDC);
    command.args(["measure", "--bind", "lo", "host"]).env("HOME", directory.path());
    // As before Linux 5.7.
    let bind_to_device = Refusal::beyond(libc::SYS_setsockopt, 2, libc::SO_BINDTODEVICE as u32, libc::EPERM);
    let output = refuse(&mut command, &[bind_to_device]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    for words in ["--bind lo", "CAP_NET_RAW", "Linux 5.7", "Name an address"] {
        assert!(message.contains(words), "{words:?} is missing in {message}");
    }
}
