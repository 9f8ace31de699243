//! A real Prometheus scrapes every part, and every query of the dashboard is put to it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;

use crate::outputs::{self, Place};
use crate::servers::{node_exporter, prometheus};
use crate::support::http::{escaped, get};
use crate::support::process::eventually;
use crate::support::{Site, has_program, skip};

#[test]
fn prometheus_scrapes_every_part_and_answers_every_query_of_the_dashboard() {
    for program in ["prometheus", "prometheus-node-exporter"] {
        if !has_program(program) {
            skip(&format!("{program} is not installed"));
            return;
        }
    }
    let site = Site::new();
    let parts = outputs::all(&site);
    let exporter = node_exporter(&site);
    let endpoints = parts.iter().filter_map(|part| match part.place {
        Place::Endpoint(address) => Some((part.name, address)),
        Place::File(_) => None,
    });
    let targets: Vec<(&str, SocketAddr)> = endpoints.chain([("node", exporter.address)]).collect();
    let server = prometheus(&site, &targets);
    let ask = |query: &str| -> Vec<Value> {
        let answer = get(server.address, &format!("/api/v1/query?query={}", escaped(query)), "application/json");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        answer["data"]["result"].as_array().unwrap_or_else(|| panic!("{query}: {answer}")).clone()
    };
    // Rates need two samples.
    let is_known =
        |(name, _): &(&str, SocketAddr)| !ask(&format!("count_over_time(up{{job=\"{name}\"}}[1m]) >= 3")).is_empty();
    assert!(eventually(|| targets.iter().all(is_known)), "{}", server.log());
    for (name, _) in &targets {
        let up = ask(&format!("max_over_time(up{{job=\"{name}\"}}[1m])"));
        assert_eq!(up[0]["value"][1], "1", "{name} cannot be scraped: {}", exporter.log());
    }
    for part in &parts {
        let build = ask(&format!("icdc_{}_build_info{{version=\"{}\"}}", part.name, env!("CARGO_PKG_VERSION")));
        assert_eq!(build.len(), 1, "{}: {build:?}", part.name);
    }
    let errors = ask("node_textfile_scrape_error");
    assert_eq!(errors[0]["value"][1], "0", "{}", exporter.log());

    let queries = queries();
    let asked: BTreeSet<&str> = queries
        .iter()
        .flat_map(|query| ["copy", "serve", "relay", "pace"].map(|part| (query, part)))
        .filter(|(query, part)| query.contains(&format!("icdc_{part}_")))
        .map(|(_, part)| part)
        .collect();
    assert_eq!(asked.len(), 4, "the dashboard shows {asked:?} only");
    let runs = |query: &String| !query.contains("icdc_pace_") || parts.iter().any(|part| part.name == "pace");
    let unanswered: Vec<&String> = queries.iter().filter(|query| ask(query).is_empty() && runs(query)).collect();
    assert!(unanswered.is_empty(), "no series: {unanswered:#?}");
}

/// All queries of the dashboard, as Grafana would send them for a window of a minute.
fn queries() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana/icdc.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut queries = Vec::new();
    find(&dashboard, &mut queries);
    assert!(queries.len() > 10, "{queries:?}");
    let filled = |query: String| query.replace("$__rate_interval", "1m").replace("$instance", ".*");
    let filled: Vec<String> = queries.into_iter().map(filled).collect();
    assert!(!filled.iter().any(|query| query.contains('$')), "a variable that this test does not know: {filled:?}");
    filled
}

/// The members `expr`, wherever they stand.
fn find(value: &Value, queries: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            queries.extend(members.get("expr").and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|value| find(value, queries));
        }
        Value::Array(values) => values.iter().for_each(|value| find(value, queries)),
        _ => {}
    }
}
