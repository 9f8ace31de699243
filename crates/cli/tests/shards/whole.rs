//! All shards together are one copy.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::support::process::{Signal, Start};
use super::support::{MIB, Shape, Site, assert_no_leftovers, assert_same, bytes_done, data, is_root};
use super::{copy_shard, copy_shards, digest_of_one_copy, join, join_with, plan, plan_of, plan_with, status};
use serde_json::Value;

/// Files of all sizes, with names that belong together across directories.
fn tree(site: &Site, seed: u64) {
    let shape = Shape { small: 300, large: vec![9 * MIB, 5 * MIB, 1], oddities: true, ..Shape::default() };
    let tree = data::tree(&site.path("tree"), seed, &shape);
    fs::hard_link(tree.join("large0"), tree.join("a-first-name")).unwrap();
    fs::hard_link(tree.join("large0"), tree.join("d003/another-name")).unwrap();
}

#[test]
fn shards_together_are_one_copy() {
    let site = Site::new();
    tree(&site, 1);
    for (name, destination) in [("here", site.path("here").into_os_string()), ("there", site.by_ssh("there"))] {
        let planned = plan(&site, 5, &destination);
        assert_eq!(planned["shards"].as_array().unwrap().len(), 5, "{planned}");
        assert_eq!(status(&site)["done"], false);
        for ended in copy_shards(&site, 0..5) {
            ended.expect_code(0);
        }
        assert_eq!(status(&site)["done"], true);
        let joined = join(&site).expect_code(0);
        assert_same(&site.path("tree"), &site.path(name).join("tree"));
        assert_no_leftovers(&site.path(name));
        let digest = digest_of_one_copy(&site, &format!("one-{name}"));
        assert!(digest.is_string());
        assert_eq!(joined.events[0]["tree_digest"], digest, "{joined}");
        assert_eq!(joined.events[0]["items"], planned["items"], "both count directories: {planned}");
        let links = fs::metadata(site.path(name).join("tree/d003/another-name")).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::nlink(&links), 3, "names of one file stay together");
        fs::remove_dir_all(site.path("plan")).unwrap();
    }
}

#[test]
fn sources_and_their_contents_keep_their_places() {
    let site = Site::new();
    tree(&site, 2);
    data::tree(&site.path("other"), 3, &Shape { small: 20, ..Shape::default() });
    data::file(&site.path("file"), 100, 4);
    plan_of(&site, &["tree/", "other", "file"], 3, site.path("out").as_os_str());
    for ended in copy_shards(&site, 0..3) {
        ended.expect_code(0);
    }
    let joined = join(&site).expect_code(0);
    let one = site.directory("one");
    let copied = site.copy(&["tree/", "other", "file"]).arg(&one).run().expect_code(0);
    assert_eq!(joined.events[0]["tree_digest"], copied.summary()["tree_digest"]);
    assert_same(&one, &site.path("out"));
}

#[test]
fn what_is_chosen_is_planned() {
    let site = Site::new();
    tree(&site, 11);
    data::tree(&site.path("left-out"), 12, &Shape { small: 5, ..Shape::default() });
    let cache = site.directory("tree/cache");
    fs::write(cache.join("CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55").unwrap();
    fs::write(cache.join("x"), "x").unwrap();
    let options = [
        ["--include", "large1"].as_slice(),
        &["--exclude", "/tree/large*", "--exclude", "left-out/", "--max-size", "8MB", "--min-size", "1B"],
        &["-x", "--exclude-caches"],
    ]
    .concat();
    plan_with(&site, &options, &["tree", "left-out"], 3, site.path("out").as_os_str());
    for ended in copy_shards(&site, 0..3) {
        ended.expect_code(0);
    }
    let joined = join(&site).expect_code(0);
    let one = site.directory("one");
    let copied = site.copy(&options).args(["tree", "left-out"]).arg(&one).run().expect_code(0);
    assert_eq!(joined.events[0]["tree_digest"], copied.summary()["tree_digest"]);
    assert_same(&one.join("tree"), &site.path("out/tree"));
    let exists = |path: &str| one.join("tree").join(path).exists();
    assert!(exists("large1") && exists("cache/CACHEDIR.TAG"));
    assert!(!exists("large0") && !exists("large2") && !exists("cache/x") && !site.path("out/left-out").exists());
}

#[test]
fn directories_that_nobody_may_write_to_are_filled_by_several_shards() {
    let site = Site::new();
    let tree = data::tree(&site.path("tree"), 5, &Shape { small: 200, oddities: false, ..Shape::default() });
    let closed = tree.join("d001");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    // For nobody, whom rights bind.
    let out = site.directory("out");
    fs::set_permissions(&out, fs::Permissions::from_mode(0o777)).unwrap();
    let plans = site.directory("plans");
    fs::set_permissions(&plans, fs::Permissions::from_mode(0o777)).unwrap();
    let plan = plans.join("plan");
    let icdc = |words: &[&str]| {
        let mut command = site.unprivileged();
        command.args(words);
        command
    };
    icdc(&["plan", "--shards", "4", "--out"]).arg(&plan).arg(&tree).arg(&out).run().expect_code(0);
    let shard = |number: u32| {
        let mut command = icdc(&["copy", "--json", "--shard", &number.to_string(), "--plan"]);
        command.arg(&plan);
        command.start()
    };
    // Three at a time, and one when they are through.
    let runs: Vec<_> = (0..3).map(shard).collect();
    runs.into_iter().for_each(|run| drop(run.finish().expect_code(0)));
    shard(3).finish().expect_code(0);
    icdc(&["plan", "join"]).arg(&plan).run().expect_code(0);
    assert_same(&tree, &out.join("tree"));
    let mode = fs::metadata(out.join("tree/d001")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o555);
    if is_root() {
        // Otherwise the site could not be removed by somebody else.
        fs::set_permissions(out.join("tree/d001"), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn what_has_changed_since_it_was_planned_is_named_and_planned_again() {
    let site = Site::new();
    tree(&site, 6);
    plan(&site, 4, site.path("out").as_os_str());
    let (changed, gone) = (site.path("tree/d002/f00100"), site.path("tree/d003/f00150"));
    fs::write(&changed, "something else").unwrap();
    fs::remove_file(&gone).unwrap();
    fs::remove_dir_all(site.path("tree/odd/empty")).unwrap();
    let codes: Vec<_> = copy_shards(&site, 0..4).into_iter().map(|ended| (ended.code, ended.stderr)).collect();
    let told: String = codes.iter().map(|(_, stderr)| stderr.as_str()).collect();
    assert!(codes.iter().all(|(code, _)| matches!(code, Some(0 | 1))), "{codes:?}");
    assert!(told.contains("tree/d002/f00100: has changed since it was planned"), "{told}");

    let again = join(&site).expect_code(1);
    assert!(again.stderr.contains("1 item gone from the sources; if that is right"), "{again}");
    assert!(again.stderr.contains("1 item failed and planned again: copy shard 4 with"), "{again}");
    let early = join(&site).expect_code(1);
    assert!(early.stderr.contains("not copied yet: shard 4"), "{early}");
    copy_shard(&site, &["--shard", "4"]).run().expect_code(0);
    let waits = join(&site).expect_code(1);
    assert!(waits.stderr.contains("--accept-missing"), "{waits}");
    let joined = join_with(&site, &["--accept-missing"]).expect_code(0);
    assert_eq!(status(&site)["done"], true, "{}", status(&site));
    assert_same(&site.path("tree"), &site.path("out/tree"));
    assert_eq!(joined.events[0]["tree_digest"], digest_of_one_copy(&site, "one"), "{joined}");
}

#[test]
fn a_shard_that_was_interrupted_goes_on_where_it_was() {
    let site = Site::new();
    data::tree(&site.path("tree"), 7, &Shape { small: 30, large: vec![200 * MIB], ..Shape::default() });
    plan(&site, 1, &site.by_ssh("out"));
    let run = copy_shard(&site, &["--shard", "0", "--rate", "400mbit"]).start();
    assert!(run.wait_for(|event| bytes_done(event) > 60 * MIB));
    run.signal(Signal::TERM);
    run.finish().expect_code(4);
    assert_eq!(status(&site)["shards"][0]["state"], "begun");
    let early = join(&site).expect_code(1);
    assert!(early.stderr.contains("not copied yet: shard 0"), "{early}");
    let ended = copy_shard(&site, &["--shard", "0"]).run().expect_code(0);
    assert!(ended.number("resumed_bytes") >= 50 * MIB, "{ended}");
    join(&site).expect_code(0);
    assert_same(&site.path("tree"), &site.path("out/tree"));
    assert_no_leftovers(&site.path("out"));
}

#[test]
fn a_shard_that_is_copied_twice_is_whole_and_a_third_time_left_alone() {
    let site = Site::new();
    tree(&site, 8);
    plan(&site, 2, site.path("out").as_os_str());
    for ended in copy_shards(&site, [0, 0, 1, 1]) {
        ended.expect_code(0);
    }
    let third = copy_shard(&site, &["--shard", "1"]).run().expect_code(0);
    assert!(third.stderr.contains("shard 1 is copied already"), "{third}");
    join(&site).expect_code(0);
    assert_same(&site.path("tree"), &site.path("out/tree"));
    assert_no_leftovers(Path::new(&site.path("out")));
}

#[test]
fn a_directory_that_cannot_be_finished_fails_the_join() {
    let site = Site::new();
    data::tree(&site.path("tree"), 11, &Shape { small: 10, ..Shape::default() });
    fs::create_dir(site.path("tree/empty")).unwrap();
    plan(&site, 1, site.path("out").as_os_str());
    copy_shard(&site, &["--shard", "0"]).run().expect_code(0);
    fs::write(site.path("out/tree/empty"), "in the way").unwrap();
    let ended = join(&site).expect_code(1);
    assert_eq!(ended.events[0]["done"], false, "{ended}");
    fs::remove_file(site.path("out/tree/empty")).unwrap();
    join(&site).expect_code(0);
    assert_same(&site.path("tree"), &site.path("out/tree"));
}

#[test]
fn shards_that_are_copied_at_the_same_time_share_the_rate_of_the_plan() {
    let site = Site::new();
    let shape = Shape { small: 0, large: vec![60 * MIB; 2], oddities: false, ..Shape::default() };
    data::tree(&site.path("tree"), 10, &shape);
    let rate = 100e6;
    plan_with(&site, &["--rate", "100mbit"], &["tree"], 2, &site.by_ssh("out"));
    // While both are at work, the limits of their connections add up to the whole.
    let [one, other] = [0, 1].map(|shard: u32| copy_shard(&site, &["--shard", &shard.to_string()]).start());
    let paced = |event: &Value| event["type"] == "progress" && event["seconds"].as_f64() > Some(4.5);
    assert!(one.wait_for(paced) && other.wait_for(paced));
    let limits = [&one, &other].map(|run| {
        let last = run.events().into_iter().rfind(|event| paced(event)).unwrap();
        last["pacing_bps"].as_f64().unwrap()
    });
    assert!(limits.iter().all(|limit| *limit <= rate / 2.0 * 1.05), "{limits:?}");
    for run in [one, other] {
        let ended = run.finish().expect_code(0);
        assert!(ended.summary()["limited_by"].as_object().unwrap().contains_key("rate_ceiling"), "{ended}");
    }
    join(&site).expect_code(0);
    assert_same(&site.path("tree"), &site.path("out/tree"));
}

#[test]
fn processes_of_a_scheduler_share_the_shards() {
    let site = Site::new();
    tree(&site, 9);
    plan(&site, 5, site.path("out").as_os_str());
    copy_shard(&site, &[]).env("SLURM_ARRAY_TASK_ID", "4").run().expect_code(0);
    for rank in ["0", "1"] {
        copy_shard(&site, &[]).env("OMPI_COMM_WORLD_RANK", rank).env("OMPI_COMM_WORLD_SIZE", "2").run().expect_code(0);
    }
    join(&site).expect_code(0);
    assert_same(&site.path("tree"), &site.path("out/tree"));
}
