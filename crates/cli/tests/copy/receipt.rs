//! `--receipt`: a text that names every item, signed by the end that has the data, which ssh-keygen
//! and b3sum check.

use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use icdc_trust::Identity;

use crate::support::{
    Ended, MIB, Route, RoutedSite, Shape, Signal, Site, Start, assert_same, bytes_done, data, has_program, skip,
    succeed,
};

/// A name that would make lines of a receipt, if it were not escaped.
const EVIL: &[u8] = b"x\nstored file 1 1.000000000 -  forged\n\xff\\";

/// A site whose user has a key, as has everybody who signs.
fn with_key(route: Route) -> RoutedSite {
    let routed = RoutedSite::new(route);
    if !routed.path("home/.config/icdc/identity").exists() {
        succeed(&mut routed.site.icdc(&["keygen"]));
    }
    routed
}

/// Everything that a copy may bring.
fn sources(routed: &RoutedSite) -> PathBuf {
    let tree = routed.path("tree");
    data::tree(&tree, 3, &Shape { small: 30, large: vec![9 * MIB + 1], ..Shape::default() });
    fs::create_dir(tree.join("empty")).unwrap();
    symlink("large0", tree.join("symlink")).unwrap();
    fs::hard_link(tree.join("large0"), tree.join("second name")).unwrap();
    fs::write(tree.join(std::ffi::OsStr::from_bytes(EVIL)), "evil").unwrap();
    tree
}

/// Public key of the end that has the data, in OpenSSH's form.
fn signer(routed: &RoutedSite) -> String {
    let identity = match routed.route {
        Route::ToDaemon => "daemon/identity",
        _ => "home/.config/icdc/identity",
    };
    Identity::load(&routed.path(identity)).unwrap().public().ssh_line()
}

/// What ssh-keygen says of a receipt whose signer is trusted.
fn ssh_keygen(site: &Site, receipt: &Path, key: &str) -> Output {
    fs::write(site.path("allowed_signers"), format!("archive@example.org {key}\n")).unwrap();
    let mut signature = receipt.as_os_str().to_owned();
    signature.push(".sig");
    let mut command = Command::new("ssh-keygen");
    command.args(["-Y", "verify", "-n", "icdc-receipt", "-I", "archive@example.org", "-f"]);
    command.arg(site.path("allowed_signers")).arg("-s").arg(signature);
    command.stdin(fs::File::open(receipt).unwrap()).output().unwrap()
}

#[track_caller]
fn assert_signed(routed: &RoutedSite, receipt: &Path) {
    let said = ssh_keygen(&routed.site, receipt, &signer(routed));
    assert!(said.status.success(), "{:?}: {said:?}", routed.route);
    let text = text(receipt);
    assert!(text.contains(&format!("\nsigned-by: {}\n", signer(routed))), "{text}");
}

fn text(receipt: &Path) -> String {
    String::from_utf8(fs::read(receipt).unwrap()).unwrap()
}

/// Value of a fact of a receipt.
fn fact<'a>(text: &'a str, name: &str) -> &'a str {
    let start = format!("{name}: ");
    text.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// The lines of items, by their words: status, kind, and path as it is written.
fn items(text: &str) -> Vec<(&str, &str, &str)> {
    let lines = text.split("\n\n").nth(1).unwrap_or_default().lines();
    lines
        .map(|line| {
            let words: Vec<&str> = line.splitn(3, ' ').collect();
            (words[0], words[1], line.split_once("  ").unwrap().1)
        })
        .collect()
}

fn statuses(text: &str) -> Vec<&str> {
    let mut statuses: Vec<&str> = items(text).into_iter().map(|(status, ..)| status).collect();
    statuses.sort_unstable();
    statuses.dedup();
    statuses
}

/// Checks the files of a receipt by b3sum alone, in the directory that the receipt names.
fn b3sum(routed: &RoutedSite, receipt: &Path) -> Output {
    let lines = r"s/^[a-z]+ file [0-9]+ [^ ]+ (\\?[0-9a-f]{64}  )/\1/p";
    let listed = succeed(Command::new("sed").args(["-nE", lines]).arg(receipt));
    // Names that are no UTF-8 are none for b3sum.
    let listed: String = listed.lines().filter(|line| !line.contains("\\x")).map(|line| format!("{line}\n")).collect();
    let mut check = Command::new("b3sum");
    check.args(["--check", "--quiet", "-"]).current_dir(routed.site.root()).stdin(Stdio::piped());
    let mut check = check.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    check.stdin.take().unwrap().write_all(listed.as_bytes()).unwrap();
    check.wait_with_output().unwrap()
}

#[test]
fn every_copy_can_leave_one_that_ssh_keygen_and_b3sum_check() {
    if !has_program("ssh-keygen") || !has_program("b3sum") {
        return skip("ssh-keygen and b3sum are not installed");
    }
    for route in Route::ALL {
        let routed = with_key(route);
        let tree = sources(&routed);
        fs::create_dir(routed.path("receipts")).unwrap();
        let receipt = routed.path("receipts/one");
        let ended = routed.copy(&["--receipt", "receipts/one"], &["tree"], "copy").expect_code(0);
        assert_same(&tree, &routed.path("copy"));
        assert!(ended.all("notice").any(|notice| notice["text"].as_str().unwrap().contains("signed by SHA256:")));
        assert_signed(&routed, &receipt);
        let text = text(&receipt);
        assert_eq!(statuses(&text), ["stored"], "{route:?}: {text}");
        let found = items(&text);
        let count = succeed(Command::new("find").arg(&tree).args(["-printf", "x"])).len();
        assert_eq!(found.len(), count, "{route:?}: {text}");
        assert_eq!(fact(&text, "items"), count.to_string());
        assert_eq!(fact(&text, "unverified"), "0", "{route:?}");
        let of =
            |path: &str| found.iter().find(|(.., found)| *found == path).unwrap_or_else(|| panic!("{path}: {text}"));
        assert_eq!(of("copy").1, "directory", "{route:?}");
        assert_eq!(of("copy/empty").1, "directory", "{route:?}");
        assert_eq!(of("copy/symlink").1, "symlink", "{route:?}");
        let names = [of("copy/large0").1, of("copy/second name").1];
        assert!(names.contains(&"file") && names.contains(&"hardlink"), "{route:?}: {names:?}");
        of("copy/x\\nstored file 1 1.000000000 -  forged\\n\\xff\\\\");
        let said = b3sum(&routed, &receipt);
        assert!(said.status.success(), "{route:?}: {said:?}");
        let leftovers = fs::read_dir(routed.path("receipts")).unwrap().count();
        assert_eq!(leftovers, 2, "{route:?}: the receipt and its signature");

        // Nothing is overwritten.
        let again = routed.copy(&["--receipt", "receipts/one"], &["tree"], "copy").expect_code(2);
        assert!(again.stderr.contains("no receipt is overwritten"), "{route:?}: {again}");
        assert_eq!(self::text(&receipt), text);
    }
}

#[test]
fn a_tree_is_compared_with_its_receipt_and_a_changed_receipt_is_none() {
    let routed = with_key(Route::Push);
    sources(&routed);
    routed.copy(&["--receipt", "receipt"], &["tree"], "copy").expect_code(0);
    let verify = || {
        let mut command = routed.site.icdc(&["verify", "--list", "receipt", "."]);
        let Output { status, stdout, stderr } = command.output().unwrap();
        let said = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        (status.code(), said)
    };
    let (code, said) = verify();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("signed by SHA256:") && said.contains("equal: "), "{said}");
    fs::write(routed.path("copy/d000/f00001"), "changed").unwrap();
    let (code, said) = verify();
    assert!(
        code == Some(1) && said.lines().any(|line| line.starts_with("content ") && line.ends_with(" copy/d000/f00001")),
        "{said}"
    );

    data::file(&routed.path("other"), 9 * MIB + 1, 77);
    for (name, replace) in [
        ("second name", &(|path: &Path| drop(fs::copy(routed.path("other"), path))) as &dyn Fn(&Path)),
        ("symlink", &|path| symlink("small", path).unwrap()),
    ] {
        let path = routed.path("copy").join(name);
        fs::remove_file(&path).unwrap();
        let (code, said) = verify();
        let tells = |said: &str, how: &str| {
            said.lines().any(|line| line.starts_with(how) && line.ends_with(&format!(" copy/{name}")))
        };
        assert!(code == Some(1) && tells(&said, "missing"), "{name} is gone: {said}");
        replace(&path);
        let (code, said) = verify();
        assert!(code == Some(1) && tells(&said, "content"), "{name} is another: {said}");
    }

    let receipt = routed.path("receipt");
    let text = fs::read_to_string(&receipt).unwrap();
    for (from, to) in
        [("directory: /", "directory: /x"), ("stored file ", "equal file "), ("received-by: ", "received-by: x")]
    {
        fs::write(&receipt, text.replacen(from, to, 1)).unwrap();
        let (code, said) = verify();
        assert_eq!(code, Some(2), "{from}: {said}");
        if has_program("ssh-keygen") {
            assert!(!ssh_keygen(&routed.site, &receipt, &signer(&routed)).status.success(), "{from}");
        }
    }
    fs::write(&receipt, &text).unwrap();
    fs::remove_file(routed.path("receipt.sig")).unwrap();
    assert!(verify().1.contains("was not checked"));
}

#[test]
fn without_a_key_nothing_is_copied_and_the_command_that_makes_one_is_named() {
    for route in [Route::Local, Route::Push, Route::Pull] {
        let routed = RoutedSite::new(route);
        sources(&routed);
        let refused = routed.copy(&["--receipt", "receipt"], &["tree"], "copy").expect_code(2);
        assert!(refused.to_string().contains("icdc keygen"), "{route:?}: {refused}");
        assert!(!routed.path("copy").exists() && !routed.path("receipt").exists(), "{route:?}");
        assert!(
            !fs::read_dir(routed.site.root())
                .unwrap()
                .any(|entry| { entry.unwrap().file_name().to_string_lossy().contains("receipt") })
        );
    }
}

#[test]
fn what_was_there_is_told_apart_from_what_this_run_has_read() {
    for route in [Route::Local, Route::Push, Route::ToDaemon, Route::FromDaemon] {
        let routed = with_key(route);
        sources(&routed);
        routed.copy(&[], &["tree"], "copy").expect_code(0);
        fs::write(routed.path("tree/new"), "new").unwrap();
        routed.copy(&["--skip-equal", "--receipt", "r1"], &["tree/"], "copy").expect_code(0);
        let text = text(&routed.path("r1"));
        assert_signed(&routed, &routed.path("r1"));
        assert_eq!(statuses(&text), ["equal", "stored"], "{route:?}");
        assert_eq!(items(&text).iter().find(|(.., path)| *path == "new").unwrap().0, "stored", "{route:?}: {text}");
        assert_eq!(items(&text)[0].2, ".", "{route:?}");
        assert!(fact(&text, "options").contains("skip-equal"), "{route:?}");
        let unverified =
            items(&text).iter().filter(|(status, kind, _)| *status == "equal" && *kind != "symlink").count();
        assert_eq!(fact(&text, "unverified"), unverified.to_string(), "{route:?}");
    }
}

#[test]
fn an_interrupted_run_is_delivered_by_the_next_one_and_says_so() {
    for route in [Route::Push, Route::ToDaemon, Route::FromDaemon] {
        let routed = with_key(route);
        data::tree(&routed.path("tree"), 3, &Shape { small: 300, large: vec![64 * MIB], ..Shape::default() });
        let run = routed.start(&["--rate", "200mbit", "--receipt", "receipt"], &["tree"], "copy");
        run.wait_for(|event| bytes_done(event) > 4 * MIB);
        run.signal(if route == Route::Push { Signal::KILL } else { Signal::INT });
        let ended = run.finish();
        assert_eq!(ended.code, (route != Route::Push).then_some(4), "{ended}");
        assert!(!routed.path("receipt").exists() && !routed.path("receipt.sig").exists());
        let ended: Ended = routed.copy(&["--receipt", "receipt"], &["tree"], "copy").expect_code(0);
        assert!(ended.resumed() > 0, "{ended}");
        let names = fs::read_dir(routed.site.root()).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = names.filter(|name| name.to_string_lossy().contains(".unfinished")).collect();
        assert!(left.is_empty(), "{route:?}: {left:?}");
        assert_signed(&routed, &routed.path("receipt"));
        assert_same(&routed.path("tree"), &routed.path("copy"));
    }
}

#[test]
fn where_an_item_fails_there_is_no_receipt_and_the_rest_arrives() {
    for route in Route::ALL {
        let routed = with_key(route);
        let tree = sources(&routed);
        succeed(Command::new("mkfifo").arg(tree.join("pipe")));
        let ended = routed.copy(&["--receipt", "receipt"], &["tree"], "copy").expect_code(1);
        assert!(ended.stderr.contains("there is no receipt") && ended.stderr.contains("pipe"), "{route:?}: {ended}");
        assert!(!routed.path("receipt").exists() && !routed.path("receipt.sig").exists(), "{route:?}");
        assert!(routed.path("copy/large0").exists(), "{route:?}");
    }
}

#[test]
fn both_ends_agree_on_every_line_whatever_a_copy_does() {
    for route in [Route::Local, Route::Push, Route::ToDaemon, Route::FromDaemon] {
        let routed = with_key(route);
        let tree = sources(&routed);
        routed.copy(&[], &["tree/"], "mirror").expect_code(0);
        data::age(&tree.join("d000/f00003"), 77, 7);
        fs::rename(tree.join("d000/f00004"), tree.join("renamed")).unwrap();
        fs::remove_file(tree.join("d000/f00005")).unwrap();
        fs::remove_file(tree.join("symlink")).unwrap();
        fs::create_dir(tree.join("symlink")).unwrap();
        fs::write(routed.path("single"), "single").unwrap();
        let cases: [(&str, &[&str], &[&str], &str); 9] = [
            ("mirror", &["--skip-equal", "--delete"], &["tree/"], "mirror"),
            ("snapshot", &["--skip-equal", "--snapshot"], &["tree"], "backup"),
            ("snapshot2", &["--skip-equal", "--snapshot"], &["tree"], "backup"),
            ("linked", &["--link-dest", "mirror"], &["tree/"], "linked"),
            ("verified", &["--verify"], &["tree", "single"], "several"),
            ("kept", &["--ignore-existing"], &["tree", "single"], "several"),
            ("one", &[], &["single"], "other"),
            ("into", &[], &["single"], "mirror"),
            ("moved", &["--move"], &["tree", "single"], "moved"),
        ];
        for (name, options, sources, destination) in cases {
            let receipt = format!("receipt-{name}");
            let ended = routed.copy(&[&["--receipt", &receipt], options].concat(), sources, destination);
            let ended = ended.expect_code(0);
            assert_signed(&routed, &routed.path(&receipt));
            let text = text(&routed.path(&receipt));
            match name {
                "mirror" => assert!(statuses(&text).contains(&"renamed"), "{route:?}: {text} {ended}"),
                "snapshot2" => assert_eq!(fact(&text, "snapshot").len(), 20),
                "linked" => assert!(statuses(&text).contains(&"linked"), "{route:?}: {text}"),
                "kept" => assert!(statuses(&text).contains(&"kept"), "{route:?}: {text}"),
                "one" => assert_eq!(items(&text), [("stored", "file", "other")]),
                "into" => assert_eq!(items(&text), [("stored", "file", "single")]),
                "verified" => assert!(fact(&text, "options").contains("verify "), "{route:?}: {text}"),
                _ => {}
            }
        }
    }
}

#[test]
fn a_receipt_within_the_copy_is_refused() {
    let routed = with_key(Route::Local);
    sources(&routed);
    for (receipt, destination) in [("tree/receipt", "copy"), ("tree/d000/receipt", "copy"), ("home/receipt", "home")] {
        let refused = routed.copy(&["--receipt", receipt], &["tree"], destination).expect_code(2);
        assert!(refused.to_string().contains("would be a part of the copy"), "{refused}");
        assert!(!routed.path(receipt).exists());
    }
}

#[test]
fn sources_that_could_replace_one_another_have_no_receipt() {
    for route in [Route::Local, Route::Push, Route::ToDaemon, Route::FromDaemon] {
        let routed = with_key(route);
        for source in ["a", "b"] {
            fs::create_dir(routed.path(source)).unwrap();
            fs::write(routed.path(source).join("x"), source).unwrap();
        }
        let refused = routed.copy(&["--receipt", "receipt"], &["a/", "b/"], "copy").expect_code(2);
        assert!(refused.to_string().contains("each must arrive under its own name"), "{route:?}: {refused}");
        assert!(!routed.path("receipt").exists() && !routed.path("copy").exists(), "{route:?}: {refused}");
    }
}

#[test]
fn a_receipt_names_its_directory_whole_and_one_whose_signature_can_have_no_name_is_refused_at_the_start() {
    for route in Route::ALL {
        let routed = with_key(route);
        fs::write(routed.path("single"), "single").unwrap();
        let name = "r".repeat(252);
        let refused = routed.copy(&["--receipt", &name], &["single"], "copy").expect_code(2);
        assert!(refused.to_string().contains("name too long"), "{route:?}: {refused}");
        assert!(!routed.path("copy").exists(), "{route:?}");
        routed.copy(&["--receipt", "receipt"], &["single"], "copy").expect_code(0);
        let text = text(&routed.path("receipt"));
        let directory = fact(&text, "directory");
        let begins_at_root = matches!(route, Route::ToDaemon);
        let expected = if begins_at_root { Path::new("/") } else { routed.site.root() };
        assert_eq!(Path::new(directory), expected, "{route:?}: {text}");
    }
    let routed = with_key(Route::Local);
    let site = &routed.site;
    fs::write(site.path("single"), "single").unwrap();
    for (name, destination, above) in [("local", "copy", site.path("")), ("far", "127.0.0.1:copy", site.path("home"))] {
        let words = ["--ssh", &site.ssh(), "--receipt", name, "single", destination];
        site.copy(&words).start().finish().expect_code(0);
        let text = text(&site.path(name));
        assert_eq!(Path::new(fact(&text, "directory")), above, "{text}");
    }
}
