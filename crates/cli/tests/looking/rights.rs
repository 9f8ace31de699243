//! Which keys may look: those that may read, beneath their root.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::daemon::Daemon;
use crate::support::{Site, Start};

#[test]
fn a_key_looks_beneath_its_root_only() {
    let site = Site::new();
    fs::write(site.directory("root").join("file"), "1").unwrap();
    fs::write(site.directory("outside").join("secret"), "1").unwrap();
    symlink("../outside", site.path("root/out")).unwrap();
    symlink("/etc", site.path("root/etc")).unwrap();
    let daemon = Daemon::start(&site, &site.path("root"), "r");
    for command in ["ls", "du"] {
        for path in ["../outside", "out/secret", "out/", "etc/passwd", "a/../../outside"] {
            let ended = site.icdc(&[command, &daemon.location(path)]).run();
            assert_eq!(ended.code, Some(2), "{path}: {ended}");
            assert!(!ended.text.contains("secret"), "{path}: {ended}");
        }
    }
    let ended = site.icdc(&["ls", "-R", &daemon.location("")]).run().expect_code(0);
    assert_eq!(ended.text, "etc\nfile\nout\n");
    let ended = site.icdc(&["verify", &daemon.location("../outside"), "outside"]).run();
    assert_eq!(ended.code, Some(2), "{ended}");
}

#[test]
fn who_may_not_read_may_not_look() {
    for (rights, words) in [("w", "this key may not list"), ("drop-box", "a drop box does not tell what is there")] {
        let site = Site::new();
        fs::write(site.directory("root").join("file"), "1").unwrap();
        let daemon = Daemon::start(&site, &site.path("root"), rights);
        let place = daemon.location("");
        for line in
            [&["ls", &place][..], &["du", &place], &["verify", &place, "root"], &["verify", "--quick", "root", &place]]
        {
            let ended = site.icdc(line).run().expect_code(3);
            assert!(ended.stderr.contains(words) && ended.text.is_empty(), "{rights}: {ended}");
        }
    }
}
