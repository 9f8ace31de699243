//! What the kernel does not tell: limits of inotify, lost events.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::await_followed;
use crate::support::compare::differences;
use crate::support::{ICDC, Route, RoutedSite, Run, Signal, Start, assert_same, skip};

/// Starts `icdc copy --follow` in a user namespace of its own, after this command of a shell.
fn start_limited(routed: &RoutedSite, limit: &str, options: &[&str]) -> Run {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", &format!("{limit} && exec \"$@\""), "sh"]);
    command.arg(ICDC).args(["copy", "--json", "--follow"]).args(options);
    command.arg(routed.path("source")).arg(routed.path("copy/"));
    routed.site.settle(command).start()
}

/// Whether a user namespace has limits of inotify of its own.
fn has_limits() -> bool {
    let tried = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", "echo 20 > /proc/sys/user/max_inotify_watches"])
        .output();
    tried.is_ok_and(|tried| tried.status.success())
}

#[test]
fn beyond_the_limit_of_watches_the_tree_is_walked() {
    if !has_limits() {
        return skip("no user namespaces with limits of their own");
    }
    let routed = RoutedSite::new(Route::Local);
    let source = routed.site.directory("source");
    for number in 0..40 {
        routed.site.directory(format!("source/d{number}"));
    }
    let limit = "echo 20 > /proc/sys/user/max_inotify_watches";
    let run = start_limited(&routed, limit, &["--settle", "50ms", "--scan-interval", "100ms"]);
    assert!(run.wait_for_words("may watch no more"), "{}", run.stderr());
    for number in 0..40 {
        fs::write(source.join(format!("d{number}/file")), format!("{number}")).unwrap();
    }
    for number in 0..40 {
        await_followed(&run, &format!("source/d{number}/file"));
    }
    run.signal(Signal::INT);
    run.finish().expect_code(0);
    assert_same(&source, &routed.path("copy/source"));
}

#[test]
fn a_last_walk_finds_what_was_not_reported() {
    if !has_limits() {
        return skip("no user namespaces with limits of their own");
    }
    for ends_by_itself in [true, false] {
        let routed = RoutedSite::new(Route::Local);
        let source = routed.site.directory("source");
        for number in 0..40 {
            routed.site.directory(format!("source/d{number}"));
            fs::write(source.join(format!("d{number}/early")), "1").unwrap();
        }
        let mut options = vec!["--settle", "50ms", "--scan-interval", "1h"];
        options.extend(ends_by_itself.then_some(["--idle", "1s"]).iter().flatten());
        let run = start_limited(&routed, "echo 20 > /proc/sys/user/max_inotify_watches", &options);
        // The first walk is over when all of its files have settled.
        for number in 0..40 {
            await_followed(&run, &format!("source/d{number}/early"));
        }
        for number in 0..40 {
            fs::write(source.join(format!("d{number}/late")), "2").unwrap();
        }
        if !ends_by_itself {
            run.signal(Signal::TERM);
        }
        let ended = run.finish().expect_code(0);
        let differences = differences(&source, &routed.path("copy/source"));
        assert!(differences.is_empty(), "{differences:?}\n{ended}");
    }
}

#[test]
fn what_happens_while_it_is_stopped_is_found_though_its_events_are_lost() {
    let routed = RoutedSite::new(Route::Local);
    let source = routed.site.directory("source");
    fs::write(source.join("first"), "1").unwrap();
    let run = routed.start(&["--follow", "--settle", "50ms"], &["source"], "copy/");
    await_followed(&run, "source/first");
    run.signal(Signal::STOP);
    // More than the kernel keeps: each makes three events or more.
    let most: usize = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    if most > 40_000 {
        run.signal(Signal::CONT);
        return skip("the kernel keeps very many events");
    }
    for number in 0..most / 2 {
        fs::write(source.join(format!("f{number}")), "x").unwrap();
    }
    fs::write(source.join("last"), "1").unwrap();
    run.signal(Signal::CONT);
    await_followed(&run, "source/last");
    await_followed(&run, &format!("source/f{}", most / 2 - 1));
    run.signal(Signal::INT);
    run.finish().expect_code(0);
    assert_same(&source, &routed.path("copy/source"));
}

#[test]
fn while_nothing_happens_little_is_done() {
    let routed = RoutedSite::new(Route::Local);
    let source = routed.site.directory("source");
    fs::write(source.join("first"), "1").unwrap();
    let mut run = routed.start(&["--follow", "--settle", "50ms"], &["source"], "copy/");
    await_followed(&run, "source/first");
    let pid = run.pid().as_raw_nonzero();
    let switches = |name: &str| -> u64 {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let statuses = tasks.filter_map(|task| {
            let path = task.ok()?.path();
            let comm = fs::read_to_string(path.join("comm")).ok()?;
            (comm.trim() == name).then(|| fs::read_to_string(path.join("status")).ok())?
        });
        let count = |status: String| {
            let line =
                status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok();
            line as Option<u64>
        };
        statuses.filter_map(count).sum()
    };
    let before = switches("watch");
    assert!(before > 0, "the thread that watches is there");
    assert!(run.runs_after(Duration::from_secs(3)), "it still follows");
    let after = switches("watch");
    assert!(after - before <= 5, "{before} wakeups, then {after}");
}
