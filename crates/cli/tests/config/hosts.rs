//! Which host's sections count: of several, for what is not that host's, and where there is no use
//! for a setting.

use crate::places::Configured;
use crate::support::{Ended, Start};

const TOLD: &str = "icdc: settings that are not on the command line: ";

/// What counted in a copy that could not connect, or was refused.
fn copy(configured: &Configured, words: &[&str], code: i32) -> (String, Ended) {
    let ended = configured.icdc(&[&["copy"], words].concat()).run().expect_code(code);
    let told = ended.stderr.lines().find_map(|line| line.strip_prefix(TOLD)).unwrap_or_default().to_owned();
    (told, ended)
}

#[test]
fn between_two_hosts_the_destination_goes_before_the_source() {
    let configured = Configured::new();
    configured.write(
        "ssh = 'false'\nrate = '1gbit'\nstreams = 9\n\
         [host.from]\nrate = '2gbit'\ncc = 'reno'\n\
         [host.to]\nrate = '3gbit'\nport = 5000\n",
        "",
    );
    let (told, _) = copy(&configured, &["from:x", "to:y"], 3);
    for expected in ["rate 3gbit", "cc reno", "port 5000", "streams 9", "ssh false"] {
        assert!(told.contains(expected), "{expected} is missing in {told}");
    }
    let (told, _) = copy(&configured, &["to:x", "from:y"], 3);
    assert!(told.contains("rate 2gbit") && told.contains("port 5000"), "{told}");
}

#[test]
fn what_is_a_host_s_own_is_taken_from_that_host_alone() {
    let configured = Configured::new();
    configured.write(
        "ssh = 'false'\n\
         [host.by-ssh]\nremote-icdc = '/of/ssh'\nidentity = '/nonexistent/not-this'\n\
         [host.\"127.0.0.1\"]\nremote-icdc = '/not/this'\nidentity = '/nonexistent/of-daemon'\n",
        "",
    );
    let daemon = "icdc://127.0.0.1:1/x";
    for words in [["by-ssh:x", daemon], [daemon, "by-ssh:x"]] {
        let (told, ended) = copy(&configured, &words, 3);
        assert!(told.contains("remote-icdc /of/ssh") && !told.contains("/not/this"), "{ended}");
        assert!(told.contains("identity /nonexistent/of-daemon") && !told.contains("not-this"), "{ended}");
    }
}

#[test]
fn two_hosts_that_take_different_commands_are_told_and_not_mixed_up() {
    let configured = Configured::new();
    configured.write("ssh = 'false'\n[host.a]\nremote-icdc = '/of/a'\n[host.b]\nremote-icdc = '/of/b'\n", "");
    let (_, ended) = copy(&configured, &["a:x", "b:y"], 2);
    for words in ["remote-icdc", "/of/a", "config.toml:3", "/of/b", "config.toml:5", "--remote-icdc"] {
        assert!(ended.stderr.contains(words), "{words} is missing: {ended}");
    }
    copy(&configured, &["--remote-icdc", "/of/both", "a:x", "b:y"], 3);
    // One that is set for one of them only differs from the built-in value of the other.
    configured.write("ssh = 'false'\n[host.b]\nremote-icdc = '/of/b'\n", "");
    let (_, ended) = copy(&configured, &["a:x", "b:y"], 2);
    assert!(ended.stderr.contains("built-in"), "{ended}");
    let same = "ssh = 'false'\n[host.a]\nremote-icdc = '/same'\n[host.b]\nremote-icdc = '/same'\n";
    configured.write(same, "");
    copy(&configured, &["a:x", "b:y"], 3);
}

#[test]
fn a_setting_without_use_does_not_count() {
    let configured = Configured::new();
    configured.write(
        "via = 'back'\nbind = 'lo'\nsend-self = true\nrate = '8kbit'\nproxy-login = '/nonexistent'\nfamily = 'ipv6'\n",
        "",
    );
    std::fs::write(configured.site.path("file"), vec![7; 1 << 20]).unwrap();
    // Each of them would be refused on the command line of a copy within this host.
    configured.icdc(&["copy", "file", "copied"]).run().expect_code(0);
    assert!(configured.site.path("copied").exists());
    // A daemon cannot connect back, and no proxy asks for a login.
    let (told, ended) = copy(&configured, &["file", "icdc://127.0.0.1:1/x"], 3);
    assert!(!["via", "send-self", "proxy-login"].iter().any(|key| told.contains(key)), "{ended}");
    assert!(told.contains("bind lo") && told.contains("family ipv6"), "{ended}");
    // By this route the other end connects: what leaves this host is not chosen here.
    let (told, ended) = copy(&configured, &["--ssh", "false", "file", "there:x"], 3);
    assert!(told.contains("via back") && !told.contains("bind"), "{ended}");
}

#[test]
fn a_login_in_the_environment_goes_before_a_file_that_a_file_names() {
    let configured = Configured::new();
    configured.write("via = 'socks5://127.0.0.1:1'\nproxy-login = '/nonexistent/login'\n", "");
    let (_, ended) = copy(&configured, &["--ssh", "false", "/dev/null", "there:x"], 2);
    assert!(ended.stderr.contains("/nonexistent/login"), "{ended}");
    let mut command = configured.icdc(&["copy", "--ssh", "false", "/dev/null", "there:x"]);
    let ended = command.env("ICDC_PROXY_LOGIN", "anna:secret").run();
    assert!(!ended.stderr.contains("/nonexistent/login") && !ended.stderr.contains("secret"), "{ended}");
}

#[test]
fn other_commands_take_the_settings_of_the_host_that_they_name() {
    let configured = Configured::new();
    configured.write("[host.there]\nssh = 'false'\nrate = '1gbit'\n", "");
    let run = |words: &[&str]| configured.icdc(words).run().expect_code(3);
    let measured = run(&["measure", "me@there"]);
    assert!(measured.stderr.contains("rate 1gbit") && measured.stderr.contains("ssh false"), "{measured}");
    // The doctor's rate is another thing: what the host shall reach.
    let examined = run(&["doctor", "there"]);
    assert!(examined.stderr.contains("ssh false") && !examined.stderr.contains("rate 1gbit"), "{examined}");
    // Commands without settings read no file.
    configured.write("[", "");
    configured.icdc(&["keygen"]).run().expect_code(0);
    configured.icdc(&["cc", "list"]).run().expect_code(0);
}

#[test]
fn a_plan_s_destination_counts() {
    let configured = Configured::new();
    configured.write("[host.there]\nssh = 'false'\nretry-for = '1s'\npreserve = 'mode'\n", "");
    std::fs::write(configured.site.path("file"), "data").unwrap();
    configured.icdc(&["plan", "--shards", "1", "--out", "plan", "file", "there:in/"]).run().expect_code(0);
    let text = std::fs::read_dir(configured.site.path("plan"))
        .unwrap()
        .filter_map(Result::ok)
        .find_map(|entry| std::fs::read_to_string(entry.path()).ok().filter(|text| text.contains("\"preserve\"")));
    let plan: serde_json::Value = serde_json::from_str(&text.unwrap()).unwrap();
    let preserve = &plan["preserve"];
    assert!(preserve["mode"] == true && preserve["times"] == false, "{plan}");
    let ended = configured.icdc(&["copy", "--plan", "plan", "--shard", "0"]).run().expect_code(3);
    assert!(ended.stderr.contains("retry-for 1s") && ended.stderr.contains("ssh false"), "{ended}");
}
