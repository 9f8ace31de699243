//! Files whose file system states another size than that of their contents.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::support::{Road, Site, Start, Way, assert_no_leftovers};

#[test]
fn what_the_kernel_makes_when_it_is_read_arrives_whole() {
    for (name, stated) in
        [("/proc/version", 0), ("/proc/sys/kernel/ostype", 0), ("/sys/kernel/mm/transparent_hugepage/enabled", 4096)]
    {
        if fs::metadata(name).map_or(true, |found| found.size() != stated) {
            crate::support::skip(&format!("{name} does not state {stated} bytes here"));
            continue;
        }
        for way in [Way::Local, Way::Push] {
            let road = Road::new(way);
            fs::write(road.path("empty"), "").unwrap();
            road.copy(&["--preserve", "mode,times"], &[name, "empty"], "copies/").expect_code(0);
            let copy = road.path("copies").join(std::path::Path::new(name).file_name().unwrap());
            assert_eq!(fs::read(name).unwrap(), fs::read(copy).unwrap(), "{name}");
            assert_eq!(fs::read(road.path("copies/empty")).unwrap(), b"");
            assert_no_leftovers(road.site.root());
        }
    }
}

#[test]
fn what_cannot_be_read_or_kept_is_an_item_that_failed() {
    let site = Site::new();
    // States 0, and has as many bytes as this kernel has symbols.
    let name = "/proc/kallsyms";
    if fs::read(name).map_or(true, |found| found.len() <= 256 << 10) {
        return crate::support::skip("no long file in /proc");
    }
    let ended = site.copy(&[name, "copy"]).run().expect_code(1);
    assert!(ended.stderr.contains("its file system states 0"), "{ended}");
    assert!(!site.path("copy").exists());
    assert_no_leftovers(site.root());
}
