//! Scenarios that only simulate: they need no root, and tell the same each time.

use std::fs;

use serde_json::Value;

use crate::support::Site;

/// Runs a scenario with `--quick`; gives what it printed and its record.
fn run(site: &Site, scenario: &str, out: &str) -> (String, Value) {
    let output = site.icdc(&["lab", "run", "--quick", "--out", out, scenario]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let record = fs::read_to_string(site.path(format!("{out}/report.json"))).unwrap();
    (String::from_utf8(output.stdout).unwrap(), serde_json::from_str(&record).unwrap())
}

/// The number that a cell begins with.
fn number(cell: &Value) -> f64 {
    cell.as_str().unwrap().split(' ').next().unwrap().parse().unwrap()
}

/// The row of a table that begins with this word.
fn row<'a>(table: &'a Value, first: &str) -> &'a Vec<Value> {
    let rows = table["rows"].as_array().unwrap().iter();
    rows.map(|row| row.as_array().unwrap()).find(|row| row[0] == first).unwrap()
}

/// The column of a table whose name begins so.
fn column(table: &Value, name: &str) -> usize {
    table["header"].as_array().unwrap().iter().position(|cell| cell.as_str().unwrap().starts_with(name)).unwrap()
}

#[test]
fn a_sweep_maps_goodput_over_round_trip_and_loss() {
    let site = Site::new();
    let (told, record) = run(&site, "cc-sweep", "record");
    assert!(told.contains("1 Gbit/s: goodput, % of what payload can reach"), "{told}");
    let maps = record["heat_maps"].as_array().unwrap();
    let reno = maps.iter().find(|map| map["title"] == "reno, 1 Gbit/s").unwrap();
    assert_eq!((&reno["unit"], &reno["rows"]["name"]), (&"share".into(), &"RTT".into()));
    let share = |row: usize, column: usize| reno["values"][row][column].as_f64().unwrap();
    // Mathis: √(3/2)/√1e-4 packets of 1448 bytes per 10 ms are 15 % of 941 Mbit/s; slow start adds
    // a little.
    assert!((0.11..0.20).contains(&share(0, 1)), "{reno}");
    // The window does not depend on the round trip, so a longer one is less; and so is more loss.
    assert!(share(0, 1) > 2.0 * share(1, 1) && share(1, 0) > share(1, 1) && share(0, 0) > share(0, 1), "{reno}");
    let cells = maps.iter().flat_map(|map| map["values"].as_array().unwrap()).flat_map(|row| row.as_array().unwrap());
    assert!(cells.map(|cell| cell.as_f64().unwrap()).all(|share| share > 0.0 && share <= 1.0));
    let names: Vec<&str> = maps.iter().map(|map| map["title"].as_str().unwrap()).collect();
    for name in ["cubic", "bic", "htcp", "highspeed", "scalable", "ghstcp"] {
        assert!(names.iter().any(|title| title.starts_with(name)), "{names:?}");
    }
    let csv = fs::read_to_string(site.path("record/reno_1_gbit_s.csv")).unwrap();
    assert!(csv.starts_with("rtt,loss,value_share\n10ms,1e-5,") && csv.lines().count() == 5, "{csv}");
    assert!(fs::read_to_string(site.path("record/report.html")).unwrap().contains("class=maps"));
}

#[test]
fn equals_share_and_the_aggressive_take() {
    let site = Site::new();
    let (told, record) = run(&site, "fairness", "record");
    assert!(told.contains("beside reno") && told.contains("beside itself"), "{told}");
    let tables = record["tables"].as_array().unwrap();
    let beside_reno = tables.iter().find(|table| table["caption"].as_str().unwrap().contains("beside reno")).unwrap();
    let at = column(beside_reno, "queue 1:");
    let (reno, scalable) = (number(&row(beside_reno, "reno")[at]), number(&row(beside_reno, "scalable")[at]));
    assert!((30.0..=70.0).contains(&reno) && scalable > 70.0, "{reno} {scalable}");
    // Jain's index of two flows.
    let indices = row(beside_reno, "cubic").iter().zip(beside_reno["header"].as_array().unwrap());
    let indices: Vec<f64> = indices.filter(|(_, name)| *name == "Jain").map(|(cell, _)| number(cell)).collect();
    assert!(indices.len() == 3 && indices.iter().all(|index| (0.5..=1.0).contains(index)), "{indices:?}");
    assert_eq!(record["plots"][0]["unit"], "share");
}

#[test]
fn icdc_fills_its_path_alone_and_shares_it_with_its_like() {
    let site = Site::new();
    let (told, record) = run(&site, "icdc-sim", "record");
    let tables = record["tables"].as_array().unwrap();
    let (alone, beside) = (&tables[0], &tables[1]);
    let at = column(alone, "second half");
    let shares: Vec<f64> = alone["rows"].as_array().unwrap().iter().map(|row| number(&row[at])).collect();
    assert!(shares.len() == 3 && shares.iter().all(|share| (90.0..=100.0).contains(share)), "{told}");
    let index = number(&row(beside, "icdc, 50 ms")[column(beside, "Jain")]);
    assert!((0.8..=1.0).contains(&index), "{told}");
    let share = number(&row(beside, "icdc")[column(beside, "its share")]);
    assert!((10.0..=90.0).contains(&share), "beside cubic: {told}");
    assert_eq!(record["plots"][0]["series"].as_array().unwrap().len(), 3);
}

#[test]
fn gentle_leaves_more_to_reno() {
    let site = Site::new();
    let (told, record) = run(&site, "ghstcp-sweep", "record");
    assert!(told.contains("better still") && told.contains("little"), "{told}");
    let table = &record["tables"][1];
    let (alone, left) = (column(table, "68ms: alone"), column(table, "68ms: alone") + 2);
    // The last set of parameters takes any rise for a trend, after few samples.
    let gentlest = table["rows"].as_array().unwrap().last().unwrap();
    assert!(number(&gentlest[left]) > number(&row(table, "highspeed")[left]), "{table}");
    assert!(number(&row(table, "reno")[alone]) < 70.0);
    let points: usize = record["plots"][1]["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|series| series["points"].as_array().unwrap().len())
        .sum();
    assert_eq!(points, table["rows"].as_array().unwrap().len());
}

#[test]
fn a_relay_is_best_in_the_middle_and_two_are_best_near_the_hosts() {
    let site = Site::new();
    let (told, record) = run(&site, "proxy-placement", "record");
    let [one, two] = [&record["tables"][0], &record["tables"][1]];
    let small = column(one, "windows of 64 KiB");
    let [none, middle] = ["0 : 100", "50 : 50"].map(|split| number(&row(one, split)[small]));
    // 64 KiB in 68 ms are 7.7 Mbit/s, and in half of that twice as much.
    assert!((6.0..7.8).contains(&none) && (1.8..2.2).contains(&(middle / none)), "{told}");
    let rates: Vec<f64> = two["rows"].as_array().unwrap().iter().map(|row| number(&row[column(two, "icdc")])).collect();
    assert!(rates[0] > 50.0 && rates.last().is_some_and(|last| *last < rates[0] / 2.0), "{told}");
}

#[test]
fn a_scenario_that_simulates_repeats_itself() {
    let site = Site::new();
    let (first, again) = (run(&site, "ghstcp-sweep", "first").1, run(&site, "ghstcp-sweep", "again").1);
    assert_eq!(first, again);
}
