//! `icdc copy --metrics-push`: to a real Pushgateway, and what is told where there is none.

use std::net::TcpListener;
use std::process::Command;

use crate::servers::{Server, complaints};
use crate::support::http;
use crate::support::{Site, Start, has_program, skip};

#[test]
fn a_gateway_has_the_last_run_of_each_group_and_the_last_success() {
    if !has_program("prometheus-pushgateway") {
        skip("prometheus-pushgateway is not installed");
        return;
    }
    let gateway = Server::start(&mut Command::new("prometheus-pushgateway"));
    let site = Site::new();
    std::fs::write(site.path("source"), "data").unwrap();
    let url = format!("http://{}", gateway.address);
    let nobody = site.program("nobody", "exit 255");
    let push = |url: &str, words: &[&str], code| {
        let ended = site.copy(&[&["--metrics-push", url], words].concat()).run().expect_code(code);
        assert!(!ended.stderr.contains("pushed"), "{ended}");
        http::get(gateway.address, "/metrics", "text/plain")
    };
    let line = |text: &str, metric: &str, labels: &str| {
        let found = text.lines().find(|line| line.starts_with(metric) && line.contains(labels));
        found.unwrap_or_else(|| panic!("{metric} {labels}: {text}")).rsplit(' ').next().unwrap().to_owned()
    };
    let success = "icdc_copy_last_success_timestamp_seconds{";
    let text = push(&url, &["source", "copied"], 0);
    assert_eq!(line(&text, "icdc_copy_result{", "result=\"complete\""), "1");
    let of_group = line(&text, success, "job=\"icdc_copy\"");
    let own = format!("{url}/metrics/job/nightly/volume/home");
    push(&own, &["source", "copied2"], 0);
    let text = push(&url, &["--ssh", &nobody, "source", "host:"], 3);
    assert_eq!(line(&text, "icdc_copy_result{", "job=\"icdc_copy\",result=\"unreachable\""), "1");
    assert_eq!(line(&text, "icdc_copy_result{", "job=\"icdc_copy\",result=\"complete\""), "0");
    assert_eq!(line(&text, success, "job=\"icdc_copy\""), of_group);
    assert_eq!(line(&text, "icdc_copy_result{", "job=\"nightly\",result=\"complete\",volume=\"home\""), "1");
    let ours: Vec<&str> = text.lines().filter(|line| line.contains("icdc_copy_")).collect();
    assert_eq!(complaints(&(ours.join("\n") + "\n")), "");
}

#[test]
fn a_gateway_that_is_not_there_does_not_fail_the_copy() {
    let site = Site::new();
    std::fs::write(site.path("source"), "data").unwrap();
    // Bound and not listening: nobody else gets the port.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    drop(taken);
    let ended = site.copy(&["--metrics-push", &format!("http://{address}"), "source", "copied"]).run().expect_code(0);
    let told = format!("the metrics were not pushed: http://{address}/metrics/job/icdc_copy/instance/");
    assert_eq!(ended.stderr.matches(&told).count(), 1, "{ended}");
    for (url, reason) in
        [("https://gw", "https is not supported"), ("http://me:secret@gw", "leave user and password out")]
    {
        let ended = site.copy(&["--metrics-push", url, "source", "copied2"]).run().expect_code(2);
        assert!(ended.stderr.contains(reason) && !site.path("copied2").exists(), "{ended}");
    }
}
