//! A copy in the background beside another one, over the same path.

use crate::support::calm::{holds, in_a_calm_moment, machine};
use crate::support::lab::{B, Lab};
use crate::support::{ICDC, MIB, Site, Start, data};

/// Without these root is as good as anybody.
const PLAIN: [&str; 5] =
    ["setpriv", "--bounding-set", "-net_admin,-bpf,-perfmon", "--inh-caps", "-net_admin,-bpf,-perfmon"];

/// Seconds that a copy by CUBIC takes beside one with these options, which began before; alone for `None`.
fn beside(lab: &Lab, site: &Site, before: &[&str], options: Option<&[&str]>) -> f64 {
    let shell = format!("{ICDC} lab exec --name {} --shell", lab.name);
    let exec = ["lab", "exec", "--name", &lab.name, "a", "--"];
    let copy = |before: &[&str], options: &[&str], name: &str| {
        let words = [ICDC, "copy", "--json", "--no-resume", "--whole-file", "--compress", "never", "--ssh", &shell];
        let mut command = site.icdc(&[&exec[..], before, &words, &["--remote-icdc", ICDC], options].concat());
        command.arg(site.path(name)).arg(site.on_host(B, format!("{name}-copy"))).start()
    };
    let other = options.map(|options| copy(before, options, "large"));
    if let Some(other) = &other {
        assert!(other.wait_for(|event| event["bytes_done"].as_u64().is_some_and(|bytes| bytes > 6 * MIB)));
    }
    let ended = copy(&[], &["--cc", "cubic", "--streams", "1"], "small").finish().expect_code(0);
    let is_over = |other: &crate::support::Run| other.events().iter().any(|event| event["type"] == "summary");
    assert!(!other.as_ref().is_some_and(is_over), "the other copy was to last longer");
    other.map(crate::support::Run::kill);
    ended.summary()["seconds"].as_f64().unwrap()
}

#[test]
fn a_copy_in_the_background_leaves_the_path_to_cubic() {
    let _machine = machine();
    let Some(lab) = Lab::up(&["--rate", "100mbit", "--rtt", "30ms"]) else { return };
    let site = Site::new();
    data::file(&site.path("large"), 400 * MIB, 1);
    data::file(&site.path("small"), 24 * MIB, 2);
    for before in [&[][..], &PLAIN] {
        in_a_calm_moment(|| {
            let alone = beside(&lab, &site, before, None);
            let usual = beside(&lab, &site, before, Some(&[]));
            let background = beside(&lab, &site, before, Some(&["--background"]));
            holds(background < alone + (usual - alone) / 2.0, (before, alone, usual, background))
        });
    }
}

#[test]
fn what_has_no_path_or_another_algorithm_is_not_in_the_background() {
    let site = Site::new();
    data::file(&site.path("file"), 1, 1);
    let within = site.copy(&["--background"]).arg("file").arg("copy").run().expect_code(2);
    assert!(within.stderr.contains("--background is for data that crosses a network"), "{within}");
    let mut named = site.copy(&["--background", "--cc", "cubic"]);
    let named = named.arg("file").arg(site.by_ssh("copy")).run().expect_code(2);
    assert!(named.stderr.contains("--cc"), "{named}");
}
