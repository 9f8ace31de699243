//! SIGKILL of either side while files are linked from an older copy: that never changes, and the next run completes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::support::compare::state;
use crate::support::{KIB, MIB, Noise, Shape, Site, Start, assert_no_leftovers, assert_same, data};

#[test]
fn an_older_copy_survives_kills_of_a_newer_one() {
    let mut noise = Noise::logged("references");
    let site = Site::new();
    let shape = Shape { small: 800, largest_small: 10 * KIB, large: vec![13 * MIB, 5 * MIB, 9 * MIB], oddities: true };
    let source = data::tree(&site.path("source"), 24, &shape);
    let start = |options: &[&str], place: &str| {
        let mut copy = site.copy(&["--ssh", &site.ssh()]);
        copy.args(options).arg(format!("{}/", source.display())).arg(site.by_ssh(place)).start()
    };
    start(&[], "old").finish().expect_code(0);
    // Some are copied locally, some travel.
    for number in 0..40 {
        let path = source.join(format!("d000/f{number:05}"));
        if number % 2 == 0 {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        } else {
            fs::write(&path, format!("changed {number}")).unwrap();
        }
    }
    let before = state(&site.path("old"));
    for round in 0..12 {
        let place = format!("new{}", round / 3);
        let mut run = start(&["--link-dest", "old"], &place);
        let moment = Duration::from_millis(noise.below(250));
        let is_near = noise.below(2) == 0;
        eprintln!("{round}: the {} side, after {moment:?}", if is_near { "near" } else { "far" });
        if run.runs_after(moment) {
            run.kill_either(is_near);
        } else {
            run.finish();
        }
        if round % 3 == 2 {
            start(&["--link-dest", "old"], &place).finish().expect_code(0);
            assert_same(&source, &site.path(&place));
            assert_no_leftovers(&site.path(&place));
        }
        assert!(state(&site.path("old")) == before, "round {round}: the older copy was changed");
    }
}
