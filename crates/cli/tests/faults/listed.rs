//! The connection of a copy of listed names is cut: they are asked for anew.

use std::fs;

use crate::support::network::Pair;
use crate::support::{MIB, Site, Start, assert_no_leftovers, assert_same, data, skip};

#[test]
fn the_list_is_asked_for_anew_after_a_cut() {
    let Some(pair) = Pair::new() else { return };
    let site = Site::new();
    let tree = site.directory("tree");
    let names: Vec<String> = (0..24).map(|number| number.to_string()).collect();
    for (number, name) in (0..).zip(&names) {
        data::file(&tree.join(name), 2 * MIB + number, number);
        fs::write(tree.join(format!("{name}.other")), "not listed").unwrap();
    }
    let list = site.path("list");
    fs::write(&list, names.join("\n")).unwrap();
    let options = ["--rate", "160mbit", "--ssh", &site.ssh_to(&pair.far), "--files-from", list.to_str().unwrap()];
    let mut command = site.copy(&options);
    command.arg(site.on_host(pair.far.address(), "tree")).arg(site.path("copy"));
    let run = pair.near.run(&command).start();
    assert!(run.wait_for_bytes(16 * MIB), "{}", run.finish());
    if !pair.cut() {
        return skip("this kernel cannot destroy sockets (ss -K)");
    }
    let ended = run.finish().expect_code(0);
    assert!(ended.all("reconnecting").next().is_some(), "the connection was not cut: {ended}");
    for name in &names {
        assert_same(&tree.join(name), &site.path("copy").join(name));
    }
    assert_eq!(fs::read_dir(site.path("copy")).unwrap().count(), names.len(), "{ended}");
    assert_no_leftovers(site.root());
}
