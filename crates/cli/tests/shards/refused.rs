//! Plans that cannot be used, and what is said of them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value;

use super::support::process::{Ended, Start};
use super::support::{Shape, Site, data};
use super::{copy_shard, copy_shards, join, plan, status};

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
    let list_of = |number: &str| {
        let entries = fs::read_dir(site.path("plan/lists")).unwrap().map(|entry| entry.unwrap().path());
        let is_it = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(&format!("{number}-"));
        entries.into_iter().find(is_it).unwrap()
    };
    let list = list_of("0");
    let mut bytes = fs::read(&list).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&list, &bytes).unwrap();
    assert!(refused(&site).stderr.contains(": the list is damaged"));
    fs::write(&list, fs::read(list_of("1")).unwrap()).unwrap();
    refused(&site);
    fs::remove_file(&list).unwrap();
    copy_shard(&site, &["--shard", "0"]).run().expect_code(1);
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
fn a_plan_that_claims_more_than_its_lists_have_takes_no_memory_for_it() {
    let site = planned();
    let path = site.path("plan/plan.json");
    let mut text: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    text["items"] = (1u64 << 60).into();
    text["directories"]["items"] = (1u64 << 60).into();
    fs::write(&path, text.to_string()).unwrap();
    for shard in ["0", "1"] {
        copy_shard(&site, &["--shard", shard]).run().expect_code(0);
    }
    let ended = site.icdc(&["plan", "join", "plan"]).run().expect_code(2);
    assert!(ended.stderr.contains("more items than its lists"), "{ended}");
}

#[test]
fn a_plan_is_its_users_alone_whatever_the_umask() {
    let site = Site::new();
    data::tree(&site.path("tree"), 1, &Shape { small: 20, ..Shape::default() });
    let script =
        format!("umask 0; {0} plan --shards 2 --out plan tree out && {0} copy --plan plan --shard 0", super::ICDC);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]);
    site.settle(shell).run().expect_code(0);
}

#[test]
fn sources_that_bring_the_same_name_are_not_divided() {
    let site = Site::new();
    for directory in ["a", "b"] {
        fs::write(site.directory(directory).join("x"), directory).unwrap();
    }
    for [one, other] in [["a/", "b/"], ["a/.", "b/"]] {
        let ended = site.icdc(&["plan", "--shards", "2", "--out", "plan", one, other, "out"]).run().expect_code(2);
        assert!(ended.stderr.contains("x: two of the sources have something of this name"), "{ended}");
    }
    site.icdc(&["plan", "--shards", "2", "--out", "plan", "a", "b", "out"]).run().expect_code(0);
}

#[test]
fn a_join_where_the_sources_are_not_gives_nothing_up() {
    let site = planned();
    fs::write(site.path("tree/d000/f00001"), "changed").unwrap();
    for shard in ["0", "1"] {
        copy_shard(&site, &["--shard", shard]).run();
    }
    fs::rename(site.path("tree"), site.path("elsewhere")).unwrap();
    let ended = site.icdc(&["plan", "join", "plan"]).run().expect_code(2);
    assert!(ended.stderr.contains("join on a host that has the sources"), "{ended}");
    fs::rename(site.path("elsewhere"), site.path("tree")).unwrap();
    let ended = site.icdc(&["plan", "join", "plan"]).run().expect_code(1);
    assert!(ended.stderr.contains("1 item failed and planned again"), "{ended}");
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

/// The remedy that the refusal names is tried, too.
#[test]
fn a_shard_leaves_no_receipt_and_the_joined_copy_does() {
    let site = planned();
    assert!(site.path("home/.config/icdc/identity").exists() || site.icdc(&["keygen"]).run().code == Some(0));
    let ended = copy_shard(&site, &["--shard", "0", "--receipt", "receipt"]).run().expect_code(2);
    assert!(ended.stderr.contains("--skip-equal --checksum --receipt FILE SRC... DST"), "{ended}");
    assert_eq!(status(&site)["done"], false, "nothing is copied");
    for ended in copy_shards(&site, 0..2) {
        ended.expect_code(0);
    }
    join(&site).expect_code(0);
    let words = ["--skip-equal", "--checksum", "--receipt", "receipt", "tree", "out"];
    let ended = site.copy(&words).run().expect_code(0);
    assert_eq!(ended.number("bytes_sent"), 0, "{ended}");
    let text = fs::read_to_string(site.path("receipt")).unwrap();
    assert!(text.lines().any(|line| line.starts_with("equal file ")), "{text}");
    assert!(site.path("receipt.sig").exists());
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

#[test]
fn what_a_killed_plan_has_left_is_no_obstacle_and_anything_else_is() {
    let site = Site::new();
    data::tree(&site.path("tree"), 12, &Shape { small: 5, large: Vec::new(), oddities: false, ..Shape::default() });
    let left = site.directory("plan");
    fs::set_permissions(&left, fs::Permissions::from_mode(0o700)).unwrap();
    fs::create_dir(left.join("lists")).unwrap();
    fs::write(left.join("lists/0-0123456789abcdef"), "half").unwrap();
    fs::write(left.join(".plan.json.host.7"), "half").unwrap();
    plan(&site, 2, site.path("out").as_os_str());
    assert!(!left.join(".plan.json.host.7").exists());

    for mine in [".plan.jsonx", "notes"] {
        let other = site.directory(format!("other{mine}"));
        fs::set_permissions(&other, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(other.join(mine), "mine").unwrap();
        let words = ["plan", "--shards", "2", "tree", "out", "--out"];
        let ended = site.icdc(&words).arg(&other).run().expect_code(2);
        assert!(ended.stderr.contains("must not exist, or be empty"), "{ended}");
        assert_eq!(fs::read_to_string(other.join(mine)).unwrap(), "mine");
    }
}
