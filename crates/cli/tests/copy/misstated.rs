//! Files whose file system states another size than that of their contents.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::fuse::{Fuse, LATER};
use crate::support::{Route, RoutedSite, Site, Start, assert_no_leftovers};

#[test]
fn what_the_kernel_makes_when_it_is_read_arrives_whole() {
    for (name, stated) in
        [("/proc/version", 0), ("/proc/sys/kernel/ostype", 0), ("/sys/kernel/mm/transparent_hugepage/enabled", 4096)]
    {
        if fs::metadata(name).map_or(true, |found| found.size() != stated) {
            crate::support::skip(&format!("{name} does not state {stated} bytes here"));
            continue;
        }
        for route in [Route::Local, Route::Push] {
            let routed = RoutedSite::new(route);
            fs::write(routed.path("empty"), "").unwrap();
            routed.copy(&["--preserve", "mode,times"], &[name, "empty"], "copies/").expect_code(0);
            let copy = routed.path("copies").join(std::path::Path::new(name).file_name().unwrap());
            assert_eq!(fs::read(name).unwrap(), fs::read(copy).unwrap(), "{name}");
            assert_eq!(fs::read(routed.path("copies/empty")).unwrap(), b"");
            assert_no_leftovers(routed.site.root());
        }
    }
}

#[test]
fn files_of_a_program_behind_fuse_arrive_whole_or_fail_with_the_reason() {
    for route in [Route::Local, Route::Push, Route::Pull] {
        let routed = RoutedSite::new(route);
        let contents = |length: usize| (0..length).map(|byte| byte as u8).collect::<Vec<u8>>();
        let large = (6 << 20) + 5;
        let files = vec![
            ("unknown", 0, contents(3000)),
            ("empty", 0, Vec::new()),
            ("right", 300, contents(300)),
            ("longer", 10, contents(300)),
            ("shorter", 300, contents(10)),
            ("large", large, contents(large as usize)),
            ("large-longer", large - 100, contents(large as usize)),
            ("large-shorter", large, contents(large as usize - 100)),
        ];
        let Some(mount) = Fuse::mount(routed.path("mounted"), files.clone()) else { return };
        let sources: Vec<String> = files.iter().map(|(name, ..)| format!("mounted/{name}")).collect();
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        let ended = routed.copy(&["--buffered"], &sources, "copies/").expect_code(1);
        let failures = ended.failures();
        for (name, stated, contents) in &files {
            let copy = routed.path("copies").join(name);
            if *stated == contents.len() as u64 || *stated == 0 {
                assert_eq!(&fs::read(copy).unwrap(), contents, "{route:?} {name}: {ended}");
                continue;
            }
            let words = format!(
                "{} bytes than the {stated} that its file system states",
                if contents.len() as u64 > *stated { "more" } else { "fewer" }
            );
            assert!(failures.get(*name).is_some_and(|reason| reason.contains(&words)), "{route:?} {name}: {ended}");
            assert!(!copy.exists(), "{route:?} {name}: {ended}");
        }
        assert_eq!(failures.len(), 4, "{route:?}: {ended}");
        drop(mount);
    }
}

/// As `/proc/kmsg` and `trace_pipe` are, for which a reader would wait without end.
#[test]
fn files_whose_contents_come_later_are_not_waited_for() {
    let routed = RoutedSite::new(Route::Local);
    let Some(mount) = Fuse::mount(routed.path("mounted"), vec![(LATER, 0, b"contents".to_vec())]) else { return };
    fs::write(routed.path("other"), "other").unwrap();
    let ended = routed.copy(&[], &["mounted/later", "other"], "copies/").expect_code(1);
    assert!(
        ended.failures().get(LATER).is_some_and(|reason| reason.contains("has to wait for its contents")),
        "{ended}"
    );
    assert_eq!(fs::read(routed.path("copies/other")).unwrap(), b"other");
    assert!(!routed.path("copies/later").exists());
    drop(mount);
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
