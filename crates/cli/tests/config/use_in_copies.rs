//! What settings do in copies that arrive.

use std::fs;

use crate::places::Configured;
use crate::support::{HERE, ICDC, Start, is_root};

#[test]
fn a_copy_that_names_nothing_but_places() {
    let configured = Configured::new();
    let ssh = configured.site.ssh();
    configured.write(
        &format!("ssh = {ssh:?}\nverify = true\n[host.\"127.*\"]\nremote-icdc = {ICDC:?}\npreserve = ['mode']\n"),
        "streams = 2\n",
    );
    fs::write(configured.site.path("file"), "data").unwrap();
    let place = configured.site.by_ssh("arrived");
    let mut command = configured.icdc(&["copy", "--json", "file"]);
    let ended = command.arg(&place).run().expect_code(0);
    let summary = ended.events.iter().find(|event| event["type"] == "summary").unwrap();
    assert_eq!(summary["read_back"], true, "{ended}");
    assert_eq!(fs::read(configured.site.path("arrived")).unwrap(), b"data");

    // What a file switches on can be switched off.
    fs::remove_file(configured.site.path("arrived")).unwrap();
    let ended = configured.icdc(&["copy", "--json", "--no-verify", "file"]).arg(&place).run().expect_code(0);
    let summary = ended.events.iter().find(|event| event["type"] == "summary").unwrap();
    assert_eq!(summary["read_back"], false, "{ended}");
}

#[test]
fn far_ends_read_neither_files_nor_variables() {
    let configured = Configured::new();
    // Whoever looked would stumble over all of these.
    configured.write("not = 'toml", "neither = [");
    let body = format!(
        "shift\nunset ICDC_CONFIG\nexport ICDC_SYSTEM_CONFIG='{}' ICDC_RATE=fast ICDC_VIA=nowhere ICDC_PRESERVE=everything\n\
         exec sh -c \"$*\"",
        configured.system_file().display()
    );
    let ssh = configured.site.program("ssh-elsewhere", &body);
    // They would be seen there.
    let mut looking = std::process::Command::new(&ssh);
    looking.arg(HERE).args([ICDC, "config"]);
    configured.site.settle(looking).run().expect_code(2);
    fs::write(configured.site.path("file"), "data").unwrap();
    for (source, destination) in
        [("file", format!("{HERE}:{}", configured.site.path("pushed").display())), ("", String::new())]
    {
        let mut command = configured.site.copy(&["--ssh", &ssh]);
        match source {
            "" => command.arg(configured.site.by_ssh("file")).arg("pulled"),
            source => command.arg(source).arg(destination),
        };
        command.run().expect_code(0);
    }
    assert!(configured.site.path("pushed").exists() && configured.site.path("pulled").exists());
}

#[test]
fn a_system_file_counts_in_a_user_namespace() {
    let configured = Configured::new();
    let program = configured.site.icdc_for_anyone();
    configured.write("", "rate = '1gbit'\n");
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user"]).arg(&program).args(["config", "--json", "--explain", "there"]);
    if is_root() {
        use std::os::unix::process::CommandExt as _;
        command.uid(65534).gid(65534);
    }
    let mut command = configured.site.settle(command);
    command.env_remove("ICDC_CONFIG").env("ICDC_SYSTEM_CONFIG", configured.system_file());
    let ended = command.run();
    if ended.stderr.contains("unshare: ") {
        return crate::support::skip("user namespaces are not allowed here");
    }
    let ended = ended.expect_code(0);
    let rate = ended.events[0]["settings"].as_array().unwrap().iter().find(|one| one["key"] == "rate").unwrap();
    assert_eq!(rate["value"], "1gbit");
}
