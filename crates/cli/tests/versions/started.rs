//! Far sides that ssh starts and that speak other versions.

use crate::support::{Ended, ICDC, Site, Start, assert_same};

/// A copy to a far side on which `body` runs for icdc.
fn copy_to(body: &str) -> Ended {
    let site = Site::new();
    std::fs::write(site.path("file"), "contents").unwrap();
    let (ssh, far) = (site.ssh(), site.program("far-icdc", body));
    let mut command = site.icdc(&["copy", "--json", "--ssh", &ssh, "--remote-icdc", &far, "file"]);
    let ended = command.arg(site.by_ssh("copied")).run();
    match ended.code {
        Some(0) => assert_same(&site.path("file"), &site.path("copied")),
        _ => assert!(!site.path("copied").exists(), "{ended}"),
    }
    ended
}

/// A far side that says `lines` in the place of its own first ones.
fn saying(lines: &str) -> String {
    format!("'{ICDC}' far-end | {{ read -r empty; read -r versions; read -r marker; printf '{lines}'; exec cat; }}")
}

#[test]
fn a_newer_far_side_that_has_this_version_too_is_used() {
    for lines in ["\\nICDC-VERSIONS 2-9\\nICDC-FAR-END 2\\n", "\\nICDC-VERSIONS 1-3\\nICDC-FAR-END 1\\n"] {
        let ended = copy_to(&saying(lines)).expect_code(0);
        assert!(ended.all("notice").next().is_none(), "{ended}");
    }
}

#[test]
fn a_far_side_that_tells_one_number_is_understood() {
    copy_to(&saying("\\nICDC-FAR-END 2\\n")).expect_code(0);
}

#[test]
fn without_a_common_version_both_are_told() {
    for (lines, theirs, remedy) in [
        ("ICDC-VERSIONS 3-4\\nICDC-FAR-END 3\\n", "icdc/3 to icdc/4", "upgrade icdc on this host, or use --send-self"),
        ("ICDC-FAR-END 1\\n", "icdc/1", "upgrade icdc there, or use --send-self"),
    ] {
        let ended = copy_to(&format!("printf '{lines}'; exec cat")).expect_code(3);
        for words in ["another protocol", theirs, "this is icdc/2", remedy] {
            assert!(ended.to_string().contains(words), "{words}: {ended}");
        }
    }
}
