//! A copy by the jobs of `kubernetes/`, pod by pod as their manifests say.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::manifests::Manifests;
use super::pod::{Node, Pod, action, can_run};
use super::support::daemon::Daemon;
use super::support::process::{Ended, Run, Signal, descendants};
use super::support::{MIB, Shape, Site, assert_no_leftovers, assert_same, data, succeed};
use super::{await_that, schema};

/// A data set in the volume of the sources, and what is to become of it.
struct Transfer {
    site: Site,
    manifests: Manifests,
    source: PathBuf,
}

impl Transfer {
    /// `None` where it cannot be carried out.
    fn by_overlay(name: &str, shards: u32, large: Vec<u64>) -> Option<Self> {
        if !can_run() {
            return None;
        }
        let mut manifests = Manifests::of_overlay(name)?;
        let site = Site::new();
        let source = Node(&site).claim("source").join("run7");
        data::tree(&source, 1, &Shape { small: 200, large, ..Shape::default() });
        succeed(Command::new("chown").args(["-R", &Pod::GROUP.to_string()]).arg(&source));
        manifests.config().insert("SHARDS".into(), shards.to_string().into());
        Some(Self { site, manifests, source })
    }

    fn pod(&mut self, job: &str) -> Pod<'_> {
        Pod::new(&self.site, &mut self.manifests, job, None)
    }

    fn shard(&mut self, index: u32) -> Pod<'_> {
        Pod::new(&self.site, &mut self.manifests, "icdc-copy", Some(index))
    }

    fn copy(&mut self, shards: impl IntoIterator<Item = u32>) -> Vec<Ended> {
        let runs: Vec<Run> = shards.into_iter().map(|shard| self.shard(shard).start()).collect();
        runs.into_iter().map(Run::finish).collect()
    }

    /// As a join prints it.
    fn digest_of_one_copy(&self) -> String {
        let one = self.site.directory("one");
        let copied = self.site.copy(&[]).args([&self.source, &one]).output().unwrap();
        let text = String::from_utf8(copied.stdout).unwrap();
        let summary: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        format!("tree digest {}", summary["tree_digest"].as_str().unwrap())
    }

    fn action(&mut self, job: &str, code: i32) -> Option<String> {
        action(&mut self.manifests, job, code)
    }
}

/// Whether the script of a container is between two looks at what it waits for.
fn sleeps(run: &Run) -> bool {
    descendants(run.pid()).into_iter().any(|pid| {
        fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).is_ok_and(|name| name.trim() == "sleep")
    })
}

#[test]
fn from_volume_to_volume() {
    let Some(mut transfer) = Transfer::by_overlay("volumes", 3, vec![9 * MIB, 5 * MIB, 1]) else { return };
    let destination = Node(&transfer.site).claim("destination");

    // Whoever comes first waits: shards for the plan, the join for the shards.
    let early = transfer.shard(0).start_init("wait");
    let join = transfer.pod("icdc-join").start_init("wait");
    await_that("the shard waits", || sleeps(&early));
    transfer.pod("icdc-plan").run().expect_code(0);
    early.finish().expect_code(0);
    let plan = fs::read(transfer.site.path("claims/icdc-plan/plan/plan.json")).unwrap();
    transfer.pod("icdc-plan").run().expect_code(0);
    assert_eq!(fs::read(transfer.site.path("claims/icdc-plan/plan/plan.json")).unwrap(), plan, "it is kept");

    for ended in transfer.copy([0, 1]) {
        ended.expect_code(0);
    }
    assert!(!join.has_ended());
    // A shard that there is not, as with more completions than shards.
    let beyond = transfer.shard(3).run().expect_code(2);
    assert!(beyond.stderr.contains("no shard 3"), "{beyond}");
    assert_eq!(transfer.action("icdc-copy", 2).as_deref(), Some("FailIndex"));
    transfer.shard(2).run().expect_code(0);
    join.finish().expect_code(0);

    let joined = transfer.pod("icdc-join").run().expect_code(0);
    assert_eq!(joined.text.lines().last(), Some(transfer.digest_of_one_copy().as_str()), "{joined}");
    assert_same(&transfer.source, &destination.join("run7"));
    assert_no_leftovers(&destination);
}

#[test]
fn to_a_daemon_although_a_pod_is_killed() {
    let Some(mut transfer) = Transfer::by_overlay("daemon", 3, vec![16 * MIB, 16 * MIB, 16 * MIB]) else { return };
    let received = transfer.site.directory("received");
    let daemon = Daemon::start(&transfer.site, &received, "rw");
    let keys = transfer.site.path("home/.config/icdc");
    let files = ["identity", "known_hosts"].map(|name| (name, keys.join(name)));
    Node(&transfer.site).put_secret("icdc-keys", &files);
    transfer.manifests.config().insert("DESTINATION".into(), daemon.location("in").into());
    transfer.manifests.config().insert("RATE".into(), "60mbit".into());

    transfer.pod("icdc-plan").run().expect_code(0);
    let others = [0, 2].map(|shard| transfer.shard(shard).start());
    let killed = transfer.shard(1).start();
    // Progress is in the log.
    await_that("the shard is half copied", || percent(&killed.stderr()) >= 50);
    killed.signal(Signal::TERM);
    let killed = killed.finish().expect_code(4);
    assert!(killed.stderr.contains("stopping; what has arrived is kept"), "{killed}");
    assert_eq!(transfer.action("icdc-copy", 4), None, "another pod continues it");
    let again = transfer.shard(1).run().expect_code(0);
    assert!(again.text.contains("kept from before an interruption"), "{again}");
    for run in others {
        run.finish().expect_code(0);
    }

    let joined = transfer.pod("icdc-join").run().expect_code(0);
    assert_eq!(joined.text.lines().last(), Some(transfer.digest_of_one_copy().as_str()), "{joined}");
    assert_same(&transfer.source, &received.join("in/run7"));
    assert_no_leftovers(&received);
}

#[test]
fn what_failed_is_planned_again_and_copied_by_the_next_pods() {
    let Some(mut transfer) = Transfer::by_overlay("volumes", 2, vec![MIB]) else { return };
    transfer.pod("icdc-plan").run().expect_code(0);
    fs::write(transfer.source.join("d001/f00050"), "something else").unwrap();
    let mut codes: Vec<_> = transfer.copy([0, 1]).into_iter().map(|ended| ended.code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(1)]);
    assert_eq!(transfer.action("icdc-copy", 1).as_deref(), Some("FailIndex"));
    let planned = transfer.pod("icdc-join").run().expect_code(1);
    assert!(planned.stderr.contains("copy shard 2"), "{planned}");
    assert_eq!(transfer.action("icdc-join", 1).as_deref(), Some("FailJob"));

    // The jobs again, with one shard more.
    transfer.pod("icdc-plan").run().expect_code(0);
    for ended in transfer.copy(0..3) {
        ended.expect_code(0);
    }
    let joined = transfer.pod("icdc-join").run().expect_code(0);
    assert_eq!(joined.text.lines().last(), Some(transfer.digest_of_one_copy().as_str()), "{joined}");
    assert_same(&transfer.source, &transfer.site.path("claims/destination/run7"));
}

#[test]
fn a_plan_that_cannot_be_used_ends_the_job() {
    let Some(mut transfer) = Transfer::by_overlay("volumes", 2, vec![1]) else { return };
    transfer.pod("icdc-plan").run().expect_code(0);
    let path = transfer.site.path("claims/icdc-plan/plan/plan.json");
    let plan = fs::read_to_string(&path).unwrap();
    fs::write(&path, plan.replace("\"format\": 1", "\"format\": 9")).unwrap();
    let ended = transfer.pod("icdc-plan").run().expect_code(2);
    assert!(ended.stderr.contains("format 9"), "{ended}");
    assert_eq!(transfer.action("icdc-plan", 2).as_deref(), Some("FailJob"));
    assert_eq!(transfer.action("icdc-plan", 1), None);
}

#[test]
fn manifests_are_those_of_the_api() {
    for name in ["volumes", "daemon"] {
        let Some(mut manifests) = Manifests::of_overlay(name) else { return };
        assert_eq!(manifests.0.len(), 5, "{name}");
        for object in manifests.0.iter().chain(&Manifests::of_file("claims.yaml").0) {
            assert_eq!(schema::errors(object), Vec::<String>::new(), "{name}");
        }
        let shards = manifests.config()["SHARDS"].as_str().unwrap().parse::<u32>().unwrap();
        assert_eq!(manifests.object("Job", "icdc-copy")["spec"]["completions"], shards);
    }
}

#[test]
fn what_the_api_does_not_have_is_found() {
    let Some(mut manifests) = Manifests::of_overlay("volumes") else { return };
    let job = manifests.object("Job", "icdc-copy");
    job["spec"]["completions"] = "8".into();
    job["spec"]["template"]["spec"]["containers"][0]["arguments"] = "x".into();
    job["spec"]["podFailurePolicy"]["rules"][1]["onExitCodes"].as_object_mut().unwrap().remove("values");
    let errors = schema::errors(job).join("\n");
    assert_eq!(errors.lines().count(), 3, "{errors}");
    for error in
        ["Job.spec.completions: \"8\" is no \"integer\"", "containers[0].arguments: there is no", "values is missing"]
    {
        assert!(errors.contains(error), "{errors}");
    }
}

/// The last progress that a log tells.
fn percent(log: &str) -> u32 {
    let number = |line: &str| line.split_once('%')?.0.trim().parse().ok();
    log.lines().rev().find_map(number).unwrap_or(0)
}
