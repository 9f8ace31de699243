//! Whom a daemon lets in, what each key may do, and whom a client believes.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use crate::support::daemon::{Daemon, Nobody, free_port, with_user};
use crate::support::{
    Ended, HERE, ICDC, MIB, Shape, Signal, Site, Start, assert_no_leftovers, assert_same, data, is_root, skip, succeed,
};

/// Asserts that the run could not connect or was not let in, and said so in one sentence with
/// `words` in it.
#[track_caller]
fn kept_out(ended: Ended, words: &[&str]) -> String {
    let ended = ended.expect_code(3);
    for word in words {
        assert!(ended.stderr.contains(word), "{word:?} is not said: {ended}");
    }
    assert_eq!(ended.stderr.trim_end().lines().count(), 1, "one sentence: {ended}");
    ended.stderr
}

/// A site with `root/inside/file`, `outside/secret`, and something to push.
fn site() -> Site {
    let site = Site::new();
    for (directory, file) in [("root/inside", "file"), ("outside", "secret")] {
        fs::write(site.directory(directory).join(file), file).unwrap();
    }
    fs::write(site.path("push"), "pushed").unwrap();
    site
}

fn grant(site: &Site, more: &str) -> String {
    format!("root=\"{}\",{more}", site.path("root").display())
}

fn copy(site: &Site, source: impl AsRef<Path>, destination: impl AsRef<Path>) -> Ended {
    site.copy(&["--"]).arg(source.as_ref()).arg(destination.as_ref()).run()
}

#[test]
fn with_the_files_where_they_are_by_default_it_works_as_the_readme_says() {
    let site = Site::new();
    let (server, client) = (site.directory("server"), site.directory("client"));
    let icdc = |home: &Path, words: &[&str]| {
        let mut command = site.icdc(words);
        command.env("HOME", home);
        command
    };
    succeed(&mut icdc(&server, &["keygen"]));
    succeed(&mut icdc(&client, &["keygen"]));
    let mode = |path: &str| fs::metadata(site.path(path)).unwrap().mode() & 0o777;
    assert_eq!((mode("client/.config/icdc"), mode("client/.config/icdc/identity")), (0o700, 0o600));
    let root = site.directory("data");
    let key = fs::read_to_string(client.join(".config/icdc/identity.pub")).unwrap();
    let options = with_user(&format!("root={},rights=rw", root.display()));
    fs::write(server.join(".config/icdc/authorized_keys"), format!("{options} {key}")).unwrap();
    let port = free_port();
    let daemon = icdc(&server, &["serve", "--listen", &format!("{HERE}:{port}")]).start();
    assert!(daemon.wait_for_words("fingerprint"), "{}", daemon.stderr());
    let key = fs::read_to_string(server.join(".config/icdc/identity.pub")).unwrap();
    succeed(&mut icdc(&client, &["keygen", "--trust", &format!("{HERE}:{port}"), key.trim()]));
    data::tree(&site.path("tree"), 1, &Shape { small: 10, ..Shape::default() });
    let url = format!("icdc://{HERE}:{port}/in/");
    icdc(&client, &["copy", "tree", &url]).run().expect_code(0);
    assert_same(&site.path("tree"), &root.join("in/tree"));
    icdc(&client, &["copy", &format!("{url}tree"), "back"]).run().expect_code(0);
    assert_same(&site.path("tree"), &site.path("back"));
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.finish().code, Some(0));
}

#[test]
fn rights_are_what_the_line_says() {
    let site = site();
    let reader = Daemon::named(&site, "reader", &grant(&site, "rights=r"));
    let default = Daemon::named(&site, "default", &format!("root={}", site.path("root").display()));
    let writer = Daemon::named(&site, "writer", &grant(&site, "rights=w"));
    for daemon in [&reader, &default] {
        kept_out(copy(&site, "push", daemon.location("inside/pushed")), &["may not write", "rights="]);
        assert!(!site.path("root/inside/pushed").exists());
        copy(&site, daemon.location("inside/file"), "pulled").expect_code(0);
        fs::remove_file(site.path("pulled")).unwrap();
    }
    kept_out(copy(&site, writer.location("inside/file"), "pulled"), &["may not read", "rights="]);
    assert!(!site.path("pulled").exists());
    copy(&site, "push", writer.location("inside/pushed")).expect_code(0);
    assert_same(&site.path("push"), &site.path("root/inside/pushed"));
}

#[test]
fn nothing_outside_the_root_is_read() {
    let site = site();
    symlink(site.path("outside"), site.path("root/absolute")).unwrap();
    symlink("../outside", site.path("root/relative")).unwrap();
    symlink("../outside/secret", site.path("root/inside/link")).unwrap();
    symlink("inside", site.path("root/fine")).unwrap();
    let daemon = Daemon::named(&site, "daemon", &grant(&site, "rights=rw"));
    let outside = site.path("outside/secret");
    for path in [
        "../outside/secret",
        "../outside",
        "inside/../../outside/secret",
        "..",
        "../",
        "absolute/secret",
        "relative/secret",
        "absolute/",
        "relative/",
        "inside/link/",
        outside.to_str().unwrap().trim_start_matches('/'),
        outside.to_str().unwrap(),
        "/etc/passwd",
        "proc/self/root/etc/passwd",
    ] {
        let ended = copy(&site, daemon.location(path), "pulled");
        assert_eq!(ended.code, Some(2), "{path}: {ended}");
        assert!(!ended.stderr.contains("secret\n") && !site.path("pulled").exists(), "{path}: {ended}");
    }
    // A link is copied as the link that it is, and one that stays beneath is followed.
    copy(&site, daemon.location("inside/link"), "pulled").expect_code(0);
    assert_eq!(fs::read_link(site.path("pulled")).unwrap(), Path::new("../outside/secret"));
    copy(&site, daemon.location("fine/file"), "fine").expect_code(0);
    assert_same(&site.path("root/inside/file"), &site.path("fine"));
    // The root itself has no name.
    copy(&site, daemon.location(""), "all").expect_code(0);
    assert_same(&site.path("root"), &site.path("all"));
}

#[test]
fn nothing_outside_the_root_is_written() {
    let site = site();
    symlink(site.path("outside"), site.path("root/absolute")).unwrap();
    symlink("../outside", site.path("root/relative")).unwrap();
    symlink("../outside/secret", site.path("root/inside/link")).unwrap();
    let daemon = Daemon::named(&site, "daemon", &grant(&site, "rights=rw"));
    data::tree(&site.path("tree"), 1, &Shape { small: 3, large: vec![], oddities: false, ..Shape::default() });
    for path in [
        "../outside/secret",
        "../outside/new",
        "../new",
        "inside/../../outside/secret",
        "..",
        "absolute/secret",
        "absolute/",
        "relative/secret",
        "relative/",
    ] {
        for source in ["push", "tree", "tree/"] {
            let ended = copy(&site, source, daemon.location(path));
            assert_eq!(ended.code, Some(2), "{source} {path}: {ended}");
            assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{source} {path}: {ended}");
        }
    }
    // An absolute path begins at the root.
    let absolute = site.path("outside/secret");
    let ended = copy(&site, "push", daemon.location(absolute.to_str().unwrap()));
    assert_eq!(ended.code, Some(2), "{ended}");
    copy(&site, "push", daemon.location("/top")).expect_code(0);
    assert_same(&site.path("push"), &site.path("root/top"));
    // A link is replaced, not followed.
    copy(&site, "push", daemon.location("inside/link")).expect_code(0);
    assert_same(&site.path("push"), &site.path("root/inside/link"));
    copy(&site, "push", daemon.location("absolute")).expect_code(0);
    assert_same(&site.path("push"), &site.path("root/absolute"));
    assert_eq!(fs::read(site.path("outside/secret")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(site.path("outside")).unwrap().count(), 1);
    assert!(!site.path("new").exists());
    assert_no_leftovers(site.root());
}

#[test]
fn links_within_a_tree_do_not_lead_out_either() {
    let site = site();
    symlink(site.path("outside"), site.path("root/inside/dir")).unwrap();
    let daemon = Daemon::named(&site, "daemon", &grant(&site, "rights=rw"));
    // What is a directory at the source is a link to the outside at the destination.
    fs::create_dir_all(site.path("inside/dir")).unwrap();
    fs::write(site.path("inside/dir/secret"), "changed").unwrap();
    fs::write(site.path("inside/other"), "other").unwrap();
    let ended = copy(&site, "inside", daemon.location("/")).expect_code(1);
    assert!(ended.stderr.contains("symbolic link"), "{ended}");
    assert_eq!(fs::read(site.path("outside/secret")).unwrap(), b"secret");
    assert_eq!(fs::read(site.path("root/inside/other")).unwrap(), b"other");
    // And in the other direction nothing is read through it.
    copy(&site, daemon.location("inside"), "back").expect_code(0);
    assert!(site.path("back/dir").is_symlink());
}

#[test]
fn the_daemons_root_confines_all_keys() {
    let site = site();
    let keys = site.directory("keys");
    succeed(&mut site.icdc(&["keygen"]));
    succeed(site.icdc(&["keygen", "--identity"]).arg(keys.join("identity")));
    let client = fs::read_to_string(site.path("home/.config/icdc/identity.pub")).unwrap();
    let key = fs::read_to_string(keys.join("identity.pub")).unwrap();
    for (root, inside) in [("/", true), ("outside", false)] {
        let options = with_user(&format!("root=\"{}\",rights=rw", site.path(root).display()));
        let line = format!("{options} {client}");
        fs::write(keys.join("authorized_keys"), line).unwrap();
        let mut command = site.icdc(&["serve", "--listen", &format!("{HERE}:0")]);
        command.arg("--root").arg(site.path("root")).arg("--identity").arg(keys.join("identity"));
        let daemon = command.arg("--authorized-keys").arg(keys.join("authorized_keys")).start();
        assert!(daemon.wait_for_words("fingerprint"), "{}", daemon.stderr());
        let log = daemon.stderr();
        let port: String = log.split_once("127.0.0.1:").unwrap().1.chars().take_while(char::is_ascii_digit).collect();
        succeed(&mut site.icdc(&["keygen", "--trust", &format!("{HERE}:{port}"), key.trim()]));
        if inside {
            copy(&site, format!("icdc://{HERE}:{port}/inside/file"), "pulled").expect_code(0);
        } else {
            kept_out(copy(&site, format!("icdc://{HERE}:{port}/secret"), "secret"), &["--root"]);
            assert!(!site.path("secret").exists());
        }
    }
}

#[test]
fn a_key_with_a_user_has_that_users_permissions() {
    if !is_root() {
        return skip("acting as another user needs root");
    }
    let site = site();
    fs::write(site.path("root/for-root"), "for root").unwrap();
    fs::set_permissions(site.path("root/for-root"), Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(site.path("root/closed")).unwrap();
    let drop = site.directory("root/drop");
    chown(&drop, Some(65534), Some(65534)).unwrap();
    fs::write(drop.join("roots"), "root's file in the user's directory").unwrap();
    let daemon = Daemon::named(&site, "daemon", &grant(&site, "rights=rw,user=nobody"));
    let tree = data::tree(&site.path("tree"), 1, &Shape { small: 60, large: vec![9 * MIB], ..Shape::default() });
    copy(&site, "tree", daemon.location("drop/")).expect_code(0);
    assert_same(&tree, &drop.join("tree"));
    let owners = succeed(Command::new("find").arg(drop.join("tree")).args(["!", "-user", "nobody", "-print"]));
    assert_eq!(owners, "", "these belong to somebody else");

    let ended = copy(&site, "push", daemon.location("closed/x"));
    assert_eq!(ended.code, Some(2), "{ended}");
    assert!(ended.stderr.contains("closed") || ended.stderr.contains("ermission"), "{ended}");
    let ended = copy(&site, daemon.location("for-root"), "stolen");
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(!site.path("stolen").exists() && !site.path("root/closed/x").exists());
    // The directory is the user's, so the user may replace what is in it, and does not write into
    // it.
    fs::hard_link(drop.join("roots"), site.path("kept")).unwrap();
    copy(&site, "push", daemon.location("drop/roots")).expect_code(0);
    assert_eq!(fs::metadata(drop.join("roots")).unwrap().uid(), 65534);
    assert_eq!(fs::read_to_string(site.path("kept")).unwrap(), "root's file in the user's directory");
    // An owner cannot be given away by that user, even where the line lets owners be set.
    chown(site.path("push"), Some(0), Some(0)).unwrap();
    let keeper = Daemon::named(&site, "keeper", &grant(&site, "rights=rw,user=nobody,owner=keep"));
    let ended = site.copy(&["--preserve", "mode,times,owner", "push"]).arg(keeper.location("drop/owned")).run();
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(!drop.join("owned").exists());
    copy(&site, daemon.location("drop/tree"), "back").expect_code(0);
    assert_same(&tree, &site.path("back"));
    assert_no_leftovers(site.root());
}

#[test]
fn a_user_that_does_not_exist_lets_nobody_in() {
    if !is_root() {
        return skip("acting as another user needs root");
    }
    let site = site();
    let daemon = Daemon::named(&site, "daemon", &grant(&site, "rights=rw,user=no-such-user-here"));
    kept_out(copy(&site, "push", daemon.location("x")), &["no-such-user-here"]);
    assert!(!site.path("root/x").exists());
}

#[test]
fn a_key_that_is_not_listed_is_told_the_line_to_add() {
    let site = site();
    let daemon = Daemon::named(&site, "daemon", &grant(&site, "rights=rw"));
    succeed(&mut site.icdc(&["keygen", "--identity", "other"]));
    let public = fs::read_to_string(site.path("other.pub")).unwrap();
    let key: Vec<&str> = public.split(' ').take(2).collect();
    let push = site.copy(&["--identity", "other", "push"]).arg(daemon.location("x")).run();
    kept_out(push, &[&key.join(" "), "rights="]);
    let pull = site.copy(&["--identity", "other"]).arg(daemon.location("inside/file")).arg("pulled").run();
    kept_out(pull, &[&key.join(" ")]);
    assert!(!site.path("root/x").exists() && !site.path("pulled").exists());
    // The operator adds it while the daemon runs, and takes it away again.
    let list = site.path("daemon/authorized_keys");
    let lines = fs::read_to_string(&list).unwrap();
    fs::write(&list, format!("{lines}\n{} {public}", with_user(&grant(&site, "rights=rw")))).unwrap();
    site.copy(&["--identity", "other", "push"]).arg(daemon.location("x")).run().expect_code(0);
    fs::write(&list, &lines).unwrap();
    let push = site.copy(&["--identity", "other", "push"]).arg(daemon.location("y")).run();
    kept_out(push, &["authorized keys"]);
    copy(&site, "push", daemon.location("y")).expect_code(0);
}

#[test]
fn an_unknown_daemon_is_refused_with_the_command_that_makes_it_known() {
    let site = site();
    let daemon = Daemon::named(&site, "daemon", &grant(&site, "rights=rw"));
    fs::remove_file(site.path("home/.config/icdc/known_hosts")).unwrap();
    let said = kept_out(copy(&site, "push", daemon.location("x")), &["not known", "SHA256:", "icdc keygen --trust"]);
    assert!(!site.path("root/x").exists());
    let command = said.trim().split_once("run: icdc ").expect("the command stands at the end").1.to_owned();
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{ICDC} {command}")]);
    succeed(&mut site.settle(shell));
    copy(&site, "push", daemon.location("x")).expect_code(0);
}

#[test]
fn a_daemon_whose_key_has_changed_is_refused() {
    let site = site();
    let daemon = Daemon::named(&site, "daemon", &grant(&site, "rights=rw"));
    let other = Daemon::named(&site, "other", &grant(&site, "rights=rw"));
    let known = site.path("home/.config/icdc/known_hosts");
    let lines = format!("# comment\n{HERE}:{} {}\n", daemon.port(), other.key());
    fs::write(&known, &lines).unwrap();
    for (source, destination) in [("push".into(), daemon.location("x")), (daemon.location("inside/file"), "x".into())] {
        kept_out(copy(&site, source, destination), &["CHANGED", "known_hosts:2", "SHA256:"]);
    }
    assert!(!site.path("root/x").exists() && !site.path("x").exists());
    assert_eq!(fs::read_to_string(&known).unwrap(), lines, "nothing is learned from a daemon that is refused");
    // Nor does --trust replace what is known.
    let trust = site.icdc(&["keygen", "--trust", &format!("{HERE}:{}", daemon.port()), daemon.key()]).output().unwrap();
    assert_eq!(trust.status.code(), Some(1));
    // Another file of known hosts is another matter.
    let mut command = site.icdc(&["keygen", "--known-hosts", "mine", "--trust", &format!("{HERE}:{}", daemon.port())]);
    succeed(command.arg(daemon.key()));
    site.copy(&["--known-hosts", "mine", "push"]).arg(daemon.location("x")).run().expect_code(0);
}

#[test]
fn without_an_identity_the_way_to_one_is_told() {
    let site = site();
    let daemon = Daemon::named(&site, "daemon", &grant(&site, "rights=rw"));
    let identity = site.path("home/.config/icdc/identity");
    fs::set_permissions(&identity, Permissions::from_mode(0o644)).unwrap();
    kept_out(copy(&site, "push", daemon.location("x")), &["chmod"]);
    fs::remove_file(&identity).unwrap();
    kept_out(copy(&site, "push", daemon.location("x")), &["icdc keygen"]);
    fs::write(&identity, "no key").unwrap();
    fs::set_permissions(&identity, Permissions::from_mode(0o600)).unwrap();
    kept_out(copy(&site, "push", daemon.location("x")), &["identity"]);
    assert!(!site.path("root/x").exists());
}

#[test]
fn a_daemon_that_is_not_there_or_something_else_is_named() {
    let site = site();
    succeed(&mut site.icdc(&["keygen"]));
    let nobody = Nobody::new();
    let port = nobody.address.port();
    kept_out(copy(&site, "push", format!("icdc://{HERE}:{port}/x")), &["icdc serve", &port.to_string()]);
    kept_out(copy(&site, "push", "icdc://no-such-host.invalid/x"), &["no-such-host.invalid"]);
    let listener = std::net::TcpListener::bind((HERE, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            std::io::Write::write_all(&mut stream, b"SSH-2.0-OpenSSH_9.9\r\n").unwrap();
        });
        kept_out(copy(&site, "push", format!("icdc://{HERE}:{port}/x")), &["encrypted connection failed"]);
    });
}

#[test]
fn lists_that_others_could_change_are_not_believed() {
    let site = site();
    drop(Daemon::named(&site, "daemon", &grant(&site, "rights=rw")));
    let list = site.path("daemon/authorized_keys");
    let serve = || {
        let mut command = site.icdc(&["serve", "--listen", &format!("{HERE}:0"), "--authorized-keys"]);
        command.arg(&list).arg("--identity").arg(site.path("daemon/identity")).run()
    };
    fs::set_permissions(&list, Permissions::from_mode(0o666)).unwrap();
    let ended = serve().expect_code(1);
    assert!(ended.stderr.contains("chmod"), "{ended}");
    fs::set_permissions(&list, Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(site.path("daemon"), Permissions::from_mode(0o777)).unwrap();
    let ended = serve().expect_code(1);
    assert!(ended.stderr.contains("chmod"), "{ended}");
    fs::set_permissions(site.path("daemon"), Permissions::from_mode(0o755)).unwrap();
    for (line, word) in [
        ("rights=rw icdc-ed25519 AAAA", "root"),
        ("root=relative icdc-ed25519 AAAA", "root"),
        ("what is this", "authorized_keys"),
    ] {
        fs::write(&list, format!("# first\n{line}\n")).unwrap();
        let ended = serve().expect_code(1);
        assert!(ended.stderr.contains(word) && ended.stderr.contains(":2"), "{line}: {ended}");
    }
}
