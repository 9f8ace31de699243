//! A copy by the nodes of a real Slurm (slurmctld, several slurmd and munged on this host), and by
//! the pods of Kubernetes' jobs.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod kubernetes;
mod manifests;
mod pod;
mod schema;
mod slurm;
#[path = "../support/mod.rs"]
mod support;

use std::time::Duration;

use serde_json::Value;
use slurm::Cluster;
use support::process::{Start, holds_within};
use support::{MIB, Shape, Site, assert_no_leftovers, assert_same, data};

/// Jobs wait for each other, on a machine that does other work as well.
const PATIENCE: Duration = Duration::from_secs(240);

fn tree(site: &Site, seed: u64) {
    let shape = Shape { small: 400, large: vec![40 * MIB, 30 * MIB, 20 * MIB, 5 * MIB], ..Shape::default() };
    data::tree(&site.path("tree"), seed, &shape);
}

/// Waits until it holds.
fn await_that(what: &str, holds: impl Fn() -> bool) {
    assert!(holds_within(PATIENCE, holds), "{what}: not within {PATIENCE:?}");
}

fn states(site: &Site) -> Vec<String> {
    let ended = site.icdc(&["plan", "status", "--json", "plan"]).run();
    let shards = ended.events[0]["shards"].as_array().unwrap().clone();
    shards.iter().map(|shard| shard["state"].as_str().unwrap().to_owned()).collect()
}

fn log(site: &Site, name: &str) -> String {
    std::fs::read_to_string(site.path("plan/slurm").join(name)).unwrap_or_default()
}

#[test]
fn a_tree_is_whole_although_a_task_is_killed_and_a_node_drained() {
    let Some(cluster) = Cluster::up(4) else { return };
    let site = Site::new();
    tree(&site, 1);
    let one = site.directory("one");
    let digest = site.copy(&["tree"]).arg(&one).run().expect_code(0).summary()["tree_digest"].clone();

    // To a far end that ssh reaches, where a rate makes each task last for some seconds.
    let words = [
        "slurm",
        "submit",
        "--json",
        "--nodes",
        "4",
        "--shards",
        "8",
        "--out",
        "plan",
        "--copy",
        "--rate 40mbit",
        "--connection",
    ];
    let connection = format!("--ssh {} --remote-icdc {}", site.ssh(), support::ICDC);
    let mut submit = cluster.within(&site.icdc(&words));
    submit.arg(&connection).arg("tree").arg(site.by_ssh("out"));
    let submitted: Value = serde_json::from_str(&support::succeed(&mut submit)).unwrap();
    let (array, join) = (submitted["array_job"].as_str().unwrap(), submitted["join_job"].as_str().unwrap());
    assert_eq!(submitted["shards"].as_array().unwrap().len(), 8, "{submitted}");

    await_that("tasks run", || states(&site).iter().filter(|state| *state == "begun").count() >= 2);
    // A task that Slurm kills and puts back into the queue, and a node that gets no more tasks.
    cluster.say(&["scontrol", "requeue", &format!("{array}_0")]);
    cluster.say(&["scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=test"]);
    await_that("all jobs end", || {
        cluster.ask(&["squeue", "--noheader", "--jobs", &format!("{array},{join}")]).trim().is_empty()
    });

    let joined = log(&site, "join.log");
    assert!(states(&site).iter().all(|state| state == "copied"), "{:?}\n{joined}", states(&site));
    assert!(joined.contains(&format!("tree digest {}", digest.as_str().unwrap())), "{joined}");
    assert_same(&site.path("tree"), &site.path("out/tree"));
    assert_no_leftovers(&site.path("out"));
}

#[test]
fn a_cancelled_array_stays_cancelled() {
    let Some(cluster) = Cluster::up(1) else { return };
    let site = Site::new();
    data::tree(&site.path("tree"), 5, &Shape { small: 10, large: vec![60 * MIB], ..Shape::default() });
    let connection = format!("--ssh {} --remote-icdc {}", site.ssh(), support::ICDC);
    let words =
        ["slurm", "submit", "--json", "--nodes", "1", "--out", "plan", "--copy", "--rate 11mbit", "--connection"];
    let mut submit = cluster.within(&site.icdc(&words));
    submit.arg(&connection).arg("tree").arg(site.by_ssh("out"));
    let submitted: Value = serde_json::from_str(&support::succeed(&mut submit)).unwrap();
    await_that("the task runs", || states(&site) == ["begun"]);
    cluster.say(&["scancel", submitted["array_job"].as_str().unwrap()]);
    await_that("all jobs end", || cluster.ask(&["squeue", "--noheader"]).trim().is_empty());
    assert!(log(&site, "join.log").contains("not copied yet: shard 0"), "{}", log(&site, "join.log"));
}

#[test]
fn a_task_at_its_time_limit_stops_cleanly_and_goes_on() {
    let Some(cluster) = Cluster::up(1) else { return };
    let site = Site::new();
    data::tree(&site.path("tree"), 2, &Shape { small: 10, large: vec![60 * MIB], ..Shape::default() });
    let connection = format!("--ssh {} --remote-icdc {}", site.ssh(), support::ICDC);
    let words = [
        "slurm",
        "submit",
        "--json",
        "--nodes",
        "1",
        "--out",
        "plan",
        "--copy",
        "--rate 11mbit",
        "--sbatch",
        "--signal=B:USR1@58 --time=1",
        "--connection",
    ];
    let mut submit = cluster.within(&site.icdc(&words));
    submit.arg(&connection).arg("tree").arg(site.by_ssh("out"));
    support::succeed(&mut submit);
    await_that("the join", || log(&site, "join.log").contains("tree digest"));
    let log = log(&site, "shard-0.log");
    assert!(log.contains("stopping; what has arrived is kept"), "{log}");
    assert!(log.contains("kept from before an interruption"), "{log}");
    assert_same(&site.path("tree"), &site.path("out/tree"));
}

#[test]
fn ranks_that_srun_starts_share_the_shards() {
    let Some(cluster) = Cluster::up(3) else { return };
    let site = Site::new();
    tree(&site, 3);
    site.icdc(&["plan", "--shards", "7", "--out", "plan", "tree", "out"]).run().expect_code(0);
    let mut srun = cluster.command(&["srun", "--ntasks", "3", "--nodes", "3", support::ICDC, "copy", "--plan"]);
    support::succeed(srun.arg(site.path("plan")));
    site.icdc(&["plan", "join", "plan"]).run().expect_code(0);
    assert_same(&site.path("tree"), &site.path("out/tree"));
}

#[test]
fn options_that_cannot_be_are_found_before_anything_is_planned() {
    let site = Site::new();
    tree(&site, 4);
    for (option, value, told) in [
        ("--copy", "--rte 5", "--copy: unexpected argument '--rte'"),
        ("--connection", "--port x", "--connection:"),
        ("--sbatch", "'", "--sbatch:"),
    ] {
        let ended = site
            .icdc(&["slurm", "submit", "--nodes", "2", "--out", "plan", option, value, "tree", "out"])
            .run()
            .expect_code(2);
        assert!(ended.stderr.contains(told), "{ended}");
        assert!(!site.path("plan").exists());
    }
    let words = ["slurm", "submit", "--nodes", "2", "--shards", "3", "--dry-run", "--out", "plan", "tree", "out"];
    let ended = site.icdc(&words).run().expect_code(0);
    assert!(ended.text.contains("--array=0-2%2") && ended.text.contains("--dependency=afterany:JOB"), "{ended}");
}
