//! Plans that cannot be used, and what is said of them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::support::process::{Ended, Start};
use super::support::{Shape, Site, data};
use super::{copy_shard, plan};

fn planned() -> Site {
    let site = Site::new();
    data::tree(&site.path("tree"), 1, &Shape { small: 20, ..Shape::default() });
    plan(&site, 2, site.path("out").as_os_str());
    site
}

/// Copying its first shard fails before anything is copied.
fn refused(site: &Site) -> Ended {
    let ended = copy_shard(site, &["--shard", "0"]).run().expect_code(2);
    assert!(!site.path("out/tree").exists(), "{ended}");
    ended
}

#[test]
fn a_plan_of_another_format_is_refused_with_the_release_that_wrote_it() {
    let site = planned();
    let path = site.path("plan/plan.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"format\": 1", "\"format\": 9").replace("\"version\": \"", "\"version\": \"7."))
        .unwrap();
    let ended = refused(&site);
    assert!(ended.stderr.contains("made by icdc 7.") && ended.stderr.contains("format 9"), "{ended}");
}

#[test]
fn damaged_plans_are_refused() {
    let site = planned();
    let list = site.path("plan/lists/0");
    let mut bytes = fs::read(&list).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&list, &bytes).unwrap();
    assert!(refused(&site).stderr.contains("plan/lists/0: the list is damaged"));
    fs::write(&list, fs::read(site.path("plan/lists/1")).unwrap()).unwrap();
    refused(&site);
    fs::remove_file(&list).unwrap();
    refused(&site);
    fs::write(site.path("plan/plan.json"), "{").unwrap();
    assert!(refused(&site).stderr.contains("this is no plan"));
    fs::remove_file(site.path("plan/plan.json")).unwrap();
    assert!(refused(&site).stderr.contains("there is no plan in this directory"));
}

#[test]
fn a_plan_that_others_can_write_is_refused() {
    let site = planned();
    fs::set_permissions(site.path("plan"), fs::Permissions::from_mode(0o777)).unwrap();
    let ended = refused(&site);
    assert!(ended.stderr.contains("others may write to it"), "{ended}");
}

#[test]
fn a_host_without_the_sources_says_so() {
    let site = planned();
    fs::rename(site.path("tree"), site.path("elsewhere")).unwrap();
    let ended = refused(&site);
    assert!(ended.stderr.contains("tree: nothing was copied, this source cannot be found"), "{ended}");
}

#[test]
fn shards_that_are_not_there_are_named() {
    let site = planned();
    let ended = copy_shard(&site, &["--shard", "2"]).run().expect_code(2);
    assert!(ended.stderr.contains("there is no shard 2: the plan has 0 to 1"), "{ended}");
    let ended = copy_shard(&site, &[]).run().expect_code(2);
    assert!(ended.stderr.contains("which shard?"), "{ended}");
}

#[test]
fn a_plan_is_not_made_over_another_nor_of_what_is_elsewhere() {
    let site = planned();
    let ended = site.icdc(&["plan", "--shards", "2", "--out", "plan", "tree", "out"]).run().expect_code(2);
    assert!(ended.stderr.contains("must not exist, or be empty"), "{ended}");
    let ended = site.icdc(&["plan", "--shards", "2", "--out", "new", "host:tree", "out"]).run().expect_code(2);
    assert!(ended.stderr.contains("sources of a plan are on this host"), "{ended}");
    let ended = site.icdc(&["plan", "--shards", "2", "--out", "new", "nothing", "out"]).run().expect_code(2);
    assert!(ended.stderr.contains("nothing: this source cannot be found"), "{ended}");
    assert!(!site.path("new").exists());
}
