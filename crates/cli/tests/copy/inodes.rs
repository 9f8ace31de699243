//! Files whose inode has other contents by the time that a further name of it is found.

use std::fs;
use std::os::unix::fs::MetadataExt;

use icdc_protocol::limits::MAX_PENDING;

use crate::support::{Signal, Site, Start, assert_no_leftovers};

/// More than are announced ahead of what has arrived.
const BETWEEN: usize = MAX_PENDING;

#[test]
fn a_further_name_that_has_other_contents_meanwhile_is_a_file_of_its_own() {
    let site = Site::new();
    for directory in ["source/a", "source/m", "source/z"] {
        site.directory(directory);
    }
    let [first, again, further] = ["source/a/x", "source/a/x-again", "source/z/y"].map(|name| site.path(name));
    fs::write(&first, "before").unwrap();
    fs::hard_link(&first, again).unwrap();
    fs::hard_link(&first, &further).unwrap();
    for number in 0..BETWEEN {
        fs::write(site.path(format!("source/m/{number:06}")), "").unwrap();
    }
    let run = site.copy(&["source/", "copy"]).start();
    let arrived = |event: &serde_json::Value| event["type"] == "item" && event["path"].as_str() == Some("source/a/x");
    assert!(run.wait_for(arrived), "{}", run.stderr());
    run.signal(Signal::STOP);
    fs::write(&first, "behind").unwrap();
    run.signal(Signal::CONT);
    run.finish().expect_code(0);
    assert_eq!(fs::read_to_string(site.path("copy/a/x")).unwrap(), "before");
    assert_eq!(fs::read_to_string(site.path("copy/z/y")).unwrap(), "behind");
    let inode = |name: &str| fs::metadata(site.path(name)).unwrap().ino();
    assert_eq!(inode("copy/a/x"), inode("copy/a/x-again"));
    assert_ne!(inode("copy/a/x"), inode("copy/z/y"));
    assert_no_leftovers(site.root());
}
