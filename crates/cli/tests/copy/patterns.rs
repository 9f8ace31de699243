//! Patterns in paths on other hosts, which are expanded there.

use std::fs;

use super::delete::{files, listing};
use crate::support::{HERE, Route, RoutedSite, Start};

/// The routes by which another end has the sources.
const FROM_ELSEWHERE: [Route; 2] = [Route::Pull, Route::FromDaemon];

fn site(route: Route) -> RoutedSite {
    let routed = RoutedSite::new(route);
    let names =
        ["data/a.nc", "data/b.nc", "data/.hidden.nc", "data/c.txt", "data/x*", "data/xy", "data/sub/a.nc", "$(id).nc"];
    files(&routed.path("tree"), &names);
    routed
}

#[test]
fn a_pattern_is_expanded_where_the_files_are() {
    for route in FROM_ELSEWHERE {
        let routed = site(route);
        for (sources, expected) in [
            (&["tree/data/*.nc"] as &[&str], &["a.nc", "b.nc"] as &[&str]),
            (&["tree/*/[ab].??"], &["a.nc", "b.nc"]),
            (&["tree/data/.*.nc"], &[".hidden.nc"]),
            (&["tree/*.nc"], &["$(id).nc"]),
            (&["tree/data/s*"], &["sub", "sub/a.nc"]),
            (&["tree/data/s*/"], &["a.nc"]),
            // What has the name is meant.
            (&["tree/data/x*"], &["x*"]),
            (&["tree/data/c.txt", "tree/data/[b-z].nc", "tree/data/x*"], &["b.nc", "c.txt", "x*"]),
        ] {
            let copy = routed.path("copy");
            let _ = fs::remove_dir_all(&copy);
            let ended = routed.copy(&[], sources, "copy/").expect_code(0);
            assert_eq!(listing(&copy), expected, "{route:?} {sources:?}: {ended}");
        }
        // One name is one source.
        routed.copy(&[], &["tree/data/c.*"], "renamed").expect_code(0);
        assert_eq!(fs::read_to_string(routed.path("renamed")).unwrap(), "data/c.txt", "{route:?}");
    }
}

#[test]
fn a_pattern_without_a_match_is_named() {
    for route in FROM_ELSEWHERE {
        let routed = site(route);
        let ended = routed.copy(&[], &["tree/data/*.dat"], "copy/").expect_code(2);
        assert!(
            ended.stderr.contains("*.dat") && ended.stderr.contains("nothing matches it there"),
            "{route:?}: {ended}"
        );
        assert!(!routed.path("copy").exists(), "{route:?}: {ended}");
        // The others arrive.
        let ended = routed.copy(&[], &["tree/data/*.dat", "tree/data/*.txt"], "copy/").expect_code(1);
        assert_eq!(listing(&routed.path("copy")), ["c.txt"], "{route:?}: {ended}");
    }
}

#[test]
fn patterns_do_not_lead_out_of_the_root_of_a_key() {
    let routed = site(Route::FromDaemon);
    let outside = tempfile::tempdir().unwrap();
    files(outside.path(), &["secret.nc"]);
    std::os::unix::fs::symlink(outside.path(), routed.path("tree/out")).unwrap();
    let ended = routed.copy(&[], &["tree/o*/*.nc"], "copy/").expect_code(2);
    assert!(ended.stderr.contains("nothing matches it there"), "{ended}");
    assert!(!routed.path("copy").exists(), "{ended}");
}

#[test]
fn between_two_far_ends_the_sources_end_expands() {
    let routed = site(Route::Push);
    let far = |name: &str| format!("{HERE}:{}", routed.path(name).display());
    let mut copy = routed.site.copy(&["--ssh", &routed.site.ssh(), "--"]);
    let ended = copy.args([far("tree/data/*.nc"), far("copy/")]).run().expect_code(0);
    assert_eq!(listing(&routed.path("copy")), ["a.nc", "b.nc"], "{ended}");
}
