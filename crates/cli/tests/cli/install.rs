//! `install.sh`: for one user, without root, from files as `make dist` makes them; here a script stands for the program, which would
//! take long to pack.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{HERE, Site, has_program, skip, succeed};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../install.sh");

/// A directory as `make dist` leaves it, and the name of the tar in it.
fn dist(site: &Site) -> (PathBuf, String) {
    let name = format!("icdc-9.9.9-{}", std::env::consts::ARCH);
    let (tree, dist) = (site.directory(format!("tree/{name}")), site.directory("dist"));
    fs::create_dir_all(tree.join("bin")).unwrap();
    let program = site.program("program", "echo icdc 9.9.9");
    fs::copy(program, tree.join("bin/icdc")).unwrap();
    for file in ["share/man/man1/icdc.1", "share/bash-completion/completions/icdc", "share/doc/icdc/README.md"] {
        fs::create_dir_all(tree.join(file).parent().unwrap()).unwrap();
        fs::write(tree.join(file), file).unwrap();
    }
    let tar = format!("{name}.tar.gz");
    succeed(Command::new("tar").arg("-czf").arg(dist.join(&tar)).arg("-C").arg(site.path("tree")).arg(&name));
    let sums = succeed(Command::new("sha256sum").arg(&tar).current_dir(&dist));
    let others = format!("{}  icdc-9.9.9-other.tar.gz\n", "0".repeat(64));
    fs::write(dist.join("SHA256SUMS"), others + &sums).unwrap();
    fs::copy(SCRIPT, dist.join("install.sh")).unwrap();
    (dist, tar)
}

fn install(site: &Site, shell: &[&str], script: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).arg(script).args(words);
    site.settle(command).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Asserts that it fails, says `words`, and leaves nothing.
#[track_caller]
fn assert_refused(site: &Site, output: &Output, words: &str) {
    assert!(!output.status.success(), "{}", said(output));
    assert!(said(output).contains(words), "{}", said(output));
    assert_eq!(files(&site.path("home")), [""; 0]);
}

/// Everything below a directory but directories, sorted.
fn files(directory: &Path) -> Vec<String> {
    let found = succeed(Command::new("find").args([".", "-not", "-type", "d"]).current_dir(directory));
    let mut found: Vec<_> = found.lines().map(str::to_owned).collect();
    found.sort();
    found
}

#[test]
fn it_is_installed_and_removed_by_any_shell() {
    let mut shells = vec![vec!["sh"]];
    if has_program("busybox") {
        shells.push(vec!["busybox", "sh"])
    } else {
        skip("busybox is not installed")
    }
    for shell in shells {
        let site = Site::new();
        let (dist, _) = dist(&site);
        let own = site.path("home/.local/share/own");
        fs::create_dir_all(own.parent().unwrap()).unwrap();
        fs::write(&own, "the user's").unwrap();
        for _ in 0..2 {
            let output = install(&site, &shell, &dist.join("install.sh"), &[]);
            assert!(output.status.success(), "{}", said(&output));
            assert!(said(&output).contains("export PATH="), "{}", said(&output));
        }
        let expected = [
            "./.local/bin/icdc",
            "./.local/share/bash-completion/completions/icdc",
            "./.local/share/doc/icdc/README.md",
            "./.local/share/icdc/installed",
            "./.local/share/man/man1/icdc.1",
            "./.local/share/own",
        ];
        assert_eq!(files(&site.path("home")), expected);
        assert!(succeed(Command::new(site.path("home/.local/bin/icdc")).arg("--version")).starts_with("icdc 9.9.9"));
        let output = install(&site, &shell, &dist.join("install.sh"), &["--uninstall"]);
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(files(&site.path("home")), ["./.local/share/own"]);
        let again = install(&site, &shell, &dist.join("install.sh"), &["--uninstall"]);
        assert!(!again.status.success() && said(&again).contains("nothing is installed"), "{}", said(&again));
    }
}

#[test]
fn what_a_newer_one_has_not_goes() {
    let site = Site::new();
    let (dist, _) = dist(&site);
    let prefix = site.path("home/else where");
    let words = ["--from", dist.to_str().unwrap(), "--prefix", prefix.to_str().unwrap()];
    let run = || assert!(install(&site, &["sh"], Path::new(SCRIPT), &words).status.success());
    run();
    fs::write(prefix.join("bin/other"), "the user's").unwrap();
    let gone = prefix.join("share/man/man1/icdc-gone.1");
    fs::write(&gone, "of an earlier version").unwrap();
    let list = prefix.join("share/icdc/installed");
    let listed = fs::read_to_string(&list).unwrap();
    fs::write(&list, format!("{listed}./share/man/man1/icdc-gone.1\n./share/../../outside\n")).unwrap();
    fs::write(site.path("home/outside"), "not below the prefix").unwrap();
    run();
    assert!(!gone.exists());
    assert_eq!(fs::read_to_string(&list).unwrap(), listed);
    assert!(prefix.join("bin/other").exists() && site.path("home/outside").exists());
}

#[test]
fn what_is_damaged_foreign_or_missing_is_refused() {
    let site = Site::new();
    let (dist, tar) = dist(&site);
    let from = |place: &str| install(&site, &["sh"], Path::new(SCRIPT), &["--from", place]);
    let bytes = fs::read(dist.join(&tar)).unwrap();
    let mut damaged = bytes.clone();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(dist.join(&tar), damaged).unwrap();
    assert_refused(&site, &from(dist.to_str().unwrap()), "another checksum");
    fs::remove_file(dist.join(&tar)).unwrap();
    assert_refused(&site, &from(dist.to_str().unwrap()), "cannot be read");
    fs::write(dist.join("unnamed.tar.gz"), bytes).unwrap();
    assert_refused(&site, &from(dist.join("unnamed.tar.gz").to_str().unwrap()), "does not name unnamed.tar.gz");
    fs::write(dist.join("SHA256SUMS"), "").unwrap();
    assert_refused(&site, &from(dist.to_str().unwrap()), "names no icdc-VERSION-");
    assert_refused(&site, &from("http://192.0.2.1/icdc"), "use https://");
    assert_refused(&site, &install(&site, &["sh"], Path::new(SCRIPT), &["--from"]), "needs a value");
    assert_refused(&site, &install(&site, &["sh"], Path::new(SCRIPT), &["--form"]), "--help");
    site.program("uname", "case $1 in -m) echo mips ;; *) echo Linux ;; esac");
    let mut foreign = Command::new("sh");
    foreign.arg(SCRIPT).env("PATH", format!("{}:/usr/bin:/bin", site.root().display()));
    assert_refused(&site, &site.settle(foreign).output().unwrap(), "no program for the architecture mips");
}

#[test]
fn it_is_fetched_from_where_it_is_published() {
    let site = Site::new();
    let (dist, _) = dist(&site);
    let listener = TcpListener::bind((HERE, 0)).unwrap();
    let place = format!("http://{}/icdc/", listener.local_addr().unwrap());
    std::thread::spawn(move || listener.incoming().flatten().for_each(|client| publish(&dist, client)));
    let output = install(&site, &["sh"], Path::new(SCRIPT), &["--from", &place]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(site.path("home/.local/bin/icdc").exists());
}

/// A key that signs `SHA256SUMS` of the directory, and the line that lets it: SHA256SUMS.sig lies there afterwards.
fn sign(site: &Site, dist: &Path, name: &str, namespace: &str) -> String {
    let key = site.path(name);
    if !key.exists() {
        succeed(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"]).arg(&key));
    }
    let _ = fs::remove_file(dist.join("SHA256SUMS.sig"));
    succeed(
        Command::new("ssh-keygen")
            .args(["-q", "-Y", "sign", "-n", namespace, "-f"])
            .arg(&key)
            .arg(dist.join("SHA256SUMS")),
    );
    let public = fs::read_to_string(site.path(format!("{name}.pub"))).unwrap();
    format!("# Comment.\n{name}@example.org namespaces=\"icdc-release\" {public}")
}

#[test]
fn a_signature_is_verified_before_anything_is_installed() {
    if !has_program("ssh-keygen") {
        return skip("ssh-keygen is not installed");
    }
    let site = Site::new();
    let (dist, _) = dist(&site);
    let signers = site.path("signers");
    let with = |words: &[&str]| {
        let words = [&["--from", dist.to_str().unwrap(), "--signers", signers.to_str().unwrap()], words].concat();
        install(&site, &["sh"], Path::new(SCRIPT), &words)
    };
    fs::write(&signers, sign(&site, &dist, "releaser", "icdc-release")).unwrap();
    // By another key, for another purpose, of other checksums.
    sign(&site, &dist, "other", "icdc-release");
    assert_refused(&site, &with(&[]), "by nobody whom");
    assert_refused(&site, &with(&["--unsigned"]), "by nobody whom");
    sign(&site, &dist, "releaser", "file");
    assert_refused(&site, &with(&[]), "is not what releaser@example.org has signed");
    sign(&site, &dist, "releaser", "icdc-release");
    let sums = fs::read_to_string(dist.join("SHA256SUMS")).unwrap();
    fs::write(dist.join("SHA256SUMS"), format!("{sums}\n")).unwrap();
    assert_refused(&site, &with(&[]), "is not what releaser@example.org has signed");
    fs::write(dist.join("SHA256SUMS"), sums).unwrap();
    let output = with(&[]);
    assert!(
        output.status.success() && said(&output).contains("the signature is good: releaser@example.org"),
        "{}",
        said(&output)
    );
}

#[test]
fn an_unsigned_build_is_told_and_refused_where_signers_are_known() {
    let site = Site::new();
    let (dist, _) = dist(&site);
    let from = ["--from", dist.to_str().unwrap()];
    let signers = site.path("signers");
    fs::write(&signers, "releaser@example.org ssh-ed25519 AAAA\n").unwrap();
    let named = ["--signers", signers.to_str().unwrap()];
    assert_refused(
        &site,
        &install(&site, &["sh"], Path::new(SCRIPT), &[&from[..], &named].concat()),
        "these files are not signed",
    );
    let allowed = install(&site, &["sh"], Path::new(SCRIPT), &[&from[..], &named, &["--unsigned"]].concat());
    assert!(allowed.status.success() && said(&allowed).contains("is not signed"), "{}", said(&allowed));
    // What lies beside the script was built here, or came with it.
    let own = install(&site, &["sh"], &dist.join("install.sh"), &[]);
    assert!(own.status.success() && said(&own).contains("is not signed"), "{}", said(&own));
}

#[test]
fn a_signature_that_cannot_be_verified_is_told() {
    if !has_program("ssh-keygen") {
        return skip("ssh-keygen is not installed");
    }
    let site = Site::new();
    let (dist, _) = dist(&site);
    let signers = site.path("signers");
    fs::write(&signers, sign(&site, &dist, "releaser", "icdc-release")).unwrap();
    let without = install(&site, &["sh"], &dist.join("install.sh"), &[]);
    assert!(
        without.status.success() && said(&without).contains("NOT verified: no list says who may sign"),
        "{}",
        said(&without)
    );
    site.program("ssh-keygen", "echo 'unknown option -- Y' >&2; exit 1");
    let older = |more: &[&str]| {
        let mut older = Command::new("sh");
        older.arg(SCRIPT).arg("--from").arg(&dist).arg("--signers").arg(&signers).args(more);
        older.env("PATH", format!("{}:/usr/bin:/bin", site.root().display()));
        site.settle(older).output().unwrap()
    };
    let refused = older(&[]);
    assert!(
        !refused.status.success() && said(&refused).contains("cannot be verified: this ssh-keygen is older"),
        "{}",
        said(&refused)
    );
    let older = older(&["--unsigned"]);
    assert!(
        older.status.success() && said(&older).contains("NOT verified: this ssh-keygen is older"),
        "{}",
        said(&older)
    );
}

/// Answers one request for a file of the directory.
fn publish(dist: &Path, mut client: TcpStream) {
    let mut lines = BufReader::new(client.try_clone().unwrap()).lines().map_while(Result::ok);
    let request = lines.next().unwrap_or_default();
    lines.find(String::is_empty);
    let name = request.split(' ').nth(1).and_then(|path| path.strip_prefix("/icdc/")).unwrap_or_default();
    let Ok(body) = fs::read(dist.join(name)) else {
        let _ = client.write_all(b"HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        return;
    };
    let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let _ = client.write_all(head.as_bytes()).and_then(|()| client.write_all(&body));
}
