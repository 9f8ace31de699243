//! What an item is at the moment at which it has its name: its time and mode are not set at the end
//! of the copy.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use serde_json::Value;

use crate::support::{KIB, MIB, Route, RoutedSite, Signal, data};

#[test]
fn an_item_has_its_time_and_mode_when_it_has_its_name() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let tree = routed.site.directory("tree");
        fs::create_dir(tree.join("a")).unwrap();
        for (name, size) in [("a/small", 10), ("a/packed-alone", 300 * KIB), ("z-rest", 40 * MIB)] {
            data::file(&tree.join(name), size, size);
            fs::set_permissions(tree.join(name), Permissions::from_mode(0o604)).unwrap();
            data::age(&tree.join(name), 1_400_000_000, 7);
        }
        data::age(&tree.join("a"), 1_300_000_000, 9);
        let run = routed.start(
            &["--rate", "40mbit", "--streams", "1"][..if route == Route::Local { 2 } else { 4 }],
            &["tree/"],
            "copy",
        );
        let seen = |name: &str| {
            let found = fs::symlink_metadata(routed.path("copy").join(name)).unwrap();
            (found.mtime(), found.mtime_nsec(), found.mode() & 0o777)
        };
        for name in ["a/small", "a/packed-alone"] {
            let is_published = |event: &Value| {
                event["type"] == "item"
                    && event["outcome"] == "published"
                    && event["path"].as_str().is_some_and(|path| path.ends_with(name))
            };
            assert!(run.wait_for(is_published), "{route:?} {name}: {}", run.stderr());
            assert_eq!(seen(name), (1_400_000_000, 7, 0o604), "{route:?} {name}");
            assert!(!routed.path("copy/z-rest").exists(), "{route:?}: the copy has not ended");
        }
        run.signal(Signal::KILL);
        run.finish();
        for name in ["a/small", "a/packed-alone"] {
            assert_eq!(seen(name), (1_400_000_000, 7, 0o604), "{route:?} {name}");
        }
    }
}
