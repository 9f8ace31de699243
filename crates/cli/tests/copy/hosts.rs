//! Errors of another host name it, those of this one do not.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::support::daemon::Daemon;
use crate::support::{Ended, HERE, Route, RoutedSite, Site, Start, open_to_all};

/// Reasons of the items that failed.
fn reasons(ended: &Ended) -> Vec<String> {
    let failed = ended.all("item").filter(|event| event["outcome"] == "failed");
    failed.map(|event| event["reason"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_item_that_fails_at_the_destination_is_told_with_its_host() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        for directory in ["tree/sub", "elsewhere", "copies/tree"] {
            fs::create_dir_all(routed.path(directory)).unwrap();
        }
        ["1", "2"].iter().for_each(|name| fs::write(routed.path("tree/sub").join(name), name).unwrap());
        symlink(routed.path("elsewhere"), routed.path("copies/tree/sub")).unwrap();
        let ended = routed.copy(&[], &["tree"], "copies").expect_code(1);
        let is_far = matches!(route, Route::Push | Route::ToDaemon);
        let reasons = reasons(&ended);
        assert!(reasons.len() >= 2, "{route:?}: {ended}");
        for reason in reasons {
            assert_eq!(reason.starts_with(&format!("{HERE}: ")), is_far, "{route:?}: {reason}");
        }
        assert_eq!(ended.stderr.contains(&format!("{HERE}: ")), is_far, "{route:?}: {ended}");
        assert_eq!(ended.stderr.matches("is a symbolic link").count(), 1, "{route:?}: the cause is told once: {ended}");
    }
}

#[test]
fn permission_denied_says_at_which_end() {
    let site = Site::new();
    site.directory("tree");
    open_to_all(&site.directory("target"));
    fs::write(site.path("tree/secret"), "secret").unwrap();
    // Of root, whom nothing is denied, nobody but root may read it.
    fs::set_permissions(site.path("tree/secret"), Permissions::from_mode(0o000)).unwrap();
    let copy = |source, target| {
        let mut command = site.unprivileged();
        command.args(["copy", "--json", "--remote-icdc"]).arg(site.icdc_for_anyone());
        command.args(["--ssh", &site.ssh()]).arg(source).arg(target).run().expect_code(1)
    };
    let pushed = copy(site.path("tree").into(), site.by_ssh("target/pushed"));
    let pulled = copy(site.by_ssh("tree"), site.path("target/pulled").into());
    for (ended, is_far) in [(&pushed, false), (&pulled, true)] {
        let reasons = reasons(ended);
        assert!(reasons.len() == 1 && reasons[0].to_lowercase().contains("permission denied"), "{ended}");
        assert_eq!(reasons[0].starts_with(&format!("{HERE}: ")), is_far, "{ended}");
        let told = ended.stderr.lines().find(|line| line.to_lowercase().contains("permission denied")).unwrap();
        assert_eq!(told.contains(&format!("{HERE}: ")), is_far, "{ended}");
    }
}

#[test]
fn a_copy_that_is_refused_says_by_which_end() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::write(routed.path("file"), "file").unwrap();
        let missing = routed.copy(&[], &["not-there"], "copy");
        let is_far = matches!(route, Route::Pull | Route::FromDaemon);
        assert_eq!(missing.stderr.contains(&format!("{HERE}: ")), is_far, "{route:?}: {missing}");
        let failed = missing.all("failed").next().map(|event| event["reason"].to_string());
        assert_eq!(failed.is_some_and(|reason| reason.starts_with(&format!("\"{HERE}: "))), is_far, "{route:?}");
        let nowhere = routed.copy(&[], &["file"], "no/such/directory");
        assert_ne!(nowhere.code, Some(0), "{route:?}: {nowhere}");
        let is_far = matches!(route, Route::Push | Route::ToDaemon);
        assert_eq!(nowhere.stderr.contains(&format!("{HERE}: ")), is_far, "{route:?}: {nowhere}");
    }
}

#[test]
fn a_key_that_may_not_is_refused_by_a_host_that_is_named() {
    let site = Site::new();
    let daemon = Daemon::start(&site, &site.directory("root"), "r");
    fs::write(site.path("file"), "file").unwrap();
    let ended = site.icdc(&["copy", "file", &daemon.location("copy")]).run().expect_code(3);
    assert!(ended.stderr.contains(&format!("{HERE}: this key may not write")), "{ended}");
}
