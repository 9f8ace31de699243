//! What labs and scenarios tell: tables, pages, CSV and JSON.

use std::fs;
use std::process::Command;
use std::thread;

use crate::support::calm::{holds, in_a_calm_moment};
use crate::support::lab::{B, Lab, datagram, numbers};
use crate::support::{Site, is_root, skip};

#[test]
fn a_report_has_every_byte_that_crossed() {
    let Some(lab) = Lab::up(&["--rate", "100mbit", "--rtt", "20ms"]) else { return };
    let site = Site::new();
    let (a, b) = lab.udp();
    let receiver = thread::spawn(move || numbers(&b));
    for number in 0..200 {
        a.send(&datagram(number, 1000)).unwrap();
    }
    receiver.join().unwrap();
    let status = lab.settled_status();
    let crossed = status["a_to_b"]["delivered_bytes"].as_u64().unwrap();
    assert_eq!(crossed, 200 * (1000 + 8 + 20 + 14 + 24));
    let write = |name: &str| {
        let path = site.path(name);
        let output = lab.icdc("report", &[path.to_str().unwrap()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read_to_string(path).unwrap()
    };
    let csv = write("path.csv");
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = header.iter().position(|name| *name == "a_to_b_throughput_bps").unwrap();
    let bits: f64 = lines.filter_map(|line| line.split(',').nth(column)?.parse::<f64>().ok()).sum::<f64>() / 1000.0;
    assert!((bits / 8.0 - crossed as f64).abs() < 1.0, "{bits}");
    let json: serde_json::Value = serde_json::from_str(&write("path.json")).unwrap();
    assert_eq!(json["plots"][0]["title"], "Throughput on the wire, a to b");
    assert!(write("path.html").contains("Throughput on the wire, a to b"));
    let refused = lab.icdc("report", &[site.path("path.png").to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
}

#[test]
fn reports_of_the_lab_and_of_the_sender_have_one_clock() {
    let Some(lab) = Lab::up(&["--rate", "200mbit", "--rtt", "100ms"]) else { return };
    let site = Site::new();
    // Something crosses long before the sender begins.
    let (a, b) = lab.udp();
    a.send(&datagram(0, 100)).unwrap();
    assert_eq!(numbers(&b), [0]);
    let page = site.path("sender.html");
    let output = lab.on_a(&site, "measure").args(["--json", "--seconds", "3", "--report"]).arg(&page).arg(B).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8(output.stdout).unwrap();
    let summary: serde_json::Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    let begun = summary["begun_monotonic_seconds"].as_f64().unwrap();
    // The clock of the kernel is for other programs; people are told when it began.
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("<dt>Started</dt>") && !html.contains("monotonic clock"), "{begun}");

    let path = site.path("path.json");
    let report = |words: &[&str]| -> serde_json::Value {
        let output = lab.icdc("report", &[words, &[path.to_str().unwrap()]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap()
    };
    // When the flow's first hundred kilobytes have crossed, by the lab's clock.
    let data_begins = |report: &serde_json::Value| {
        let throughput = &report["plots"][0]["series"][0];
        let mut sum = 0.0;
        let rates = throughput["values"].as_array().unwrap().iter().map(|rate| rate.as_f64().unwrap());
        let index = rates.into_iter().position(|rate| {
            sum += rate / 8000.0;
            sum > 100_000.0
        });
        throughput["start_seconds"].as_f64().unwrap() + index.unwrap() as f64 / 1000.0
    };
    let whole = report(&[]);
    let (origin, at) = (whole["origin_monotonic_seconds"].as_f64().unwrap(), data_begins(&whole));
    // A few round trips of slow start, and what a busy machine adds; the two clocks were further
    // apart by the wait before.
    assert!((0.0..1.0).contains(&(origin + at - begun)), "{origin} {at} {begun}");
    let laid_beside = report(&["--origin", &format!("{begun}s")]);
    assert_eq!(laid_beside["origin_monotonic_seconds"].as_f64(), Some(begun));
    assert!((data_begins(&laid_beside) - (origin + at - begun)).abs() < 0.1, "{begun}");
    let columns = site.path("path.csv");
    assert!(lab.icdc("report", &[columns.to_str().unwrap()]).status.success());
    let csv = fs::read_to_string(columns).unwrap();
    let header = csv.lines().next().unwrap();
    for name in ["time_ms", "a_to_b_throughput_bps", "b_to_a_throughput_bps", "a_to_b_queue_bytes", "b_to_a_sent_bps"] {
        assert!(header.split(',').any(|column| column == name), "{name}: {header}");
    }
    assert!(!header.contains("_2"), "{header}");
}

#[test]
fn what_the_machine_spoilt_is_told_with_a_verdict() {
    let Some(lab) = Lab::up(&["--rate", "100mbit", "--rtt", "20ms"]) else { return };
    let site = Site::new();
    let verdict = |lab: &Lab| {
        let status = lab.status();
        let verdict = &status["verdict"];
        let late = status["a_to_b"]["lateness_seconds"]["p99_9"].as_f64().unwrap();
        let late = late.max(status["b_to_a"]["lateness_seconds"]["p99_9"].as_f64().unwrap());
        let limits = ["tolerance_1ms_seconds", "tolerance_means_seconds"].map(|key| verdict[key].as_f64().unwrap());
        assert_eq!(limits, [0.001, 0.005]);
        (verdict["result"].as_str().unwrap().to_owned(), late)
    };
    let expected = |late: f64| {
        if late > 0.005 {
            "invalid"
        } else if late > 0.001 {
            "means_only"
        } else {
            "valid"
        }
    };
    let cross = || {
        let (a, b) = lab.udp();
        for number in 0..50 {
            a.send(&datagram(number, 1000)).unwrap();
        }
        numbers(&b);
        lab.settled_status();
        let (result, late) = verdict(&lab);
        assert_eq!(result, expected(late), "{late}");
        result
    };
    cross();
    // The wire stands still while packets are due.
    let wire = lab.status()["wire_pid"].as_i64().unwrap();
    let signal =
        |name: &str| crate::support::succeed(std::process::Command::new("kill").args([name, &wire.to_string()]));
    let (a, b) = lab.udp();
    signal("-STOP");
    let stat = format!("/proc/{wire}/stat");
    let stands = || fs::read_to_string(&stat).is_ok_and(|stat| stat.rsplit(')').next().unwrap().starts_with(" T"));
    assert!(crate::support::process::eventually(stands));
    for number in 0..50 {
        a.send(&datagram(number, 1000)).unwrap();
    }
    thread::sleep(std::time::Duration::from_millis(500));
    signal("-CONT");
    numbers(&b);
    assert_eq!(cross(), "invalid");
    let path = site.path("path.html");
    assert!(lab.icdc("report", &[path.to_str().unwrap()]).status.success());
    let page = fs::read_to_string(path).unwrap();
    assert!(page.contains("invalid: one packet in a thousand was more than"), "no verdict");
    let shown = String::from_utf8(lab.icdc("status", &[]).stdout).unwrap();
    assert!(shown.contains("emulator: invalid"), "{shown}");
}

#[test]
fn a_scenario_prints_its_table_and_keeps_its_record() {
    if !is_root() {
        skip("a scenario's algorithm and buffers need root");
        return;
    }
    let site = Site::new();
    let output =
        site.icdc(&["lab", "run", "--quick", "--patience", "1s", "--out", "record", "startup"]).output().unwrap();
    let (shown, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // On a machine that is busy with other things, a measurement may stay invalid; it must then say
    // so.
    assert!(output.status.success() || shown.contains("invalid: "), "{shown}{errors}");
    assert!(shown.contains("paper, s") && shown.contains("100ms"), "{shown}");
    assert!(fs::read_to_string(site.path("record/report.html")).unwrap().contains("about 2"));
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(site.path("record/report.json")).unwrap()).unwrap();
    assert_eq!(json["title"], "startup");
}

#[test]
fn a_scenario_of_the_pacer_tells_of_each_class() {
    if !is_root() {
        skip("a pacer needs root");
        return;
    }
    let site = Site::new();
    let arguments = ["lab", "run", "--quick", "--patience", "1s", "--out", "record", "pacing-classes"];
    in_a_calm_moment(|| {
        let output = site.icdc(&arguments).output().unwrap();
        let (shown, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        // On a machine that is busy with other things, a measurement may stay invalid; it must then say
        // so.
        let is_valid = output.status.success();
        assert!(is_valid || shown.contains("invalid: "), "{shown}{errors}");
        let json: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(site.path("record/report.json")).unwrap()).unwrap();
        let rows = json["tables"][0]["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 5, "{shown}");
        let are_met = rows.iter().all(|row| {
            let number = |column: usize| row[column].as_str().unwrap().parse::<f64>().unwrap();
            let (error, burst) = (number(1), number(12));
            error.abs() <= 0.5 && burst <= 2.0
        });
        holds(!is_valid || are_met, shown)
    });
}

#[test]
fn copies_between_hosts_without_a_path_are_compared() {
    if !is_root() {
        skip("hosts beside a lab need root");
        return;
    }
    let site = Site::new();
    let output =
        site.icdc(&["lab", "run", "--quick", "--patience", "0s", "--out", "record", "copy-files"]).output().unwrap();
    let (shown, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{shown}{errors}");
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(site.path("record/report.json")).unwrap()).unwrap();
    let tables = json["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 3, "{shown}");
    for table in tables {
        let icdc = &table["rows"][0];
        assert_eq!((icdc[0].as_str(), icdc[6].as_str()), (Some("icdc"), Some("0")), "{shown}");
    }
}

#[test]
fn one_row_of_a_scenario_is_measured_by_its_name() {
    let site = Site::new();
    for (only, scenario, told) in
        [("no such row", "any-host", "port 22 only, ssh"), ("port 22", "startup", "leave out --only")]
    {
        let refused = site.icdc(&["lab", "run", "--only", only, scenario]).output().unwrap();
        let errors = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{errors}");
        assert!(errors.contains(told), "{errors}");
        assert!(!site.path(format!("lab-{scenario}")).exists(), "nothing is left of it");
    }
    if !is_root() {
        skip("copies of another user need root");
        return;
    }
    let row = "LAN without delay, user";
    let arguments = ["lab", "run", "--quick", "--patience", "1s", "--out", "record", "--only", row, "any-host"];
    // Both ends of the copy are another user's.
    let output = site.settle(Command::new(site.icdc_for_anyone())).args(arguments).output().unwrap();
    let (shown, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() || shown.contains("invalid: "), "{shown}{errors}");
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(site.path("record/report.json")).unwrap()).unwrap();
    let rows = json["tables"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{shown}");
    // Its name, one data connection, the stock hosts' algorithm, a good end.
    let cells = [0, 7, 10, 11].map(|column| rows[0][column].as_str().unwrap());
    assert_eq!(cells, [row, "1", "cubic", "0"], "{shown}");
}

#[test]
fn scenarios_are_named() {
    let site = Site::new();
    let list = site.icdc(&["lab", "list"]).output().unwrap();
    let names = String::from_utf8(list.stdout).unwrap();
    for name in [
        "any-host",
        "bundles-sim",
        "copy-file",
        "emulator",
        "fifo",
        "icdc-background",
        "icdc-disk",
        "icdc-pseudo",
        "pacing-single",
        "pairs",
        "proxy-lfn",
        "ramp",
        "slow-disk",
        "steady",
        "versus",
        "window",
    ] {
        assert!(names.lines().any(|line| line.starts_with(name)), "{names}");
    }
    for (wrong, says) in [
        (&["--at-once", "2", "startup"][..], "one measurement at a time"),
        (
            &["--only", "warp", "--only", "weft", "cc-table"],
            "\"warp\" or \"weft\" in its name: there are reno, loss 0;",
        ),
        (&["--only", "warp", "startup"], "leave out --only"),
        (&["--attempts", "0", "startup"], "--attempts"),
    ] {
        let refused = site.icdc(&["lab", "run"]).args(wrong).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.contains(says), "{wrong:?}: {said}");
    }
    let unknown = site.icdc(&["lab", "run", "warp"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&unknown.stderr)
            .contains("shots, slow-disk, startup, steady, ten-gigabit, versus, window")
    );
}

#[test]
fn a_named_algorithm_sends_its_windows_unpaced_where_bbr_is_the_default() {
    if !is_root() {
        skip("choosing the hosts' default algorithm needs root");
        return;
    }
    let Some(lab) = Lab::up(&["--rate", "1gbit", "--rtt", "800ms"]) else { return };
    if !lab.icdc("exec", &["a", "--", "sysctl", "-w", "net.ipv4.tcp_congestion_control=bbr"]).status.success() {
        skip("this kernel has no bbr");
        return;
    }
    let site = Site::new();
    let output = lab.on_a(&site, "measure").args(["--cc", "reno", "--seconds", "3", B]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let path = site.path("path.csv");
    assert!(lab.icdc("report", &[path.to_str().unwrap()]).status.success());
    let csv = fs::read_to_string(path).unwrap();
    let mut lines = csv.lines();
    let column = lines.next().unwrap().split(',').position(|name| name == "a_to_b_throughput_bps").unwrap();
    let rates: Vec<f64> = lines.map(|line| line.split(',').nth(column).unwrap().parse().unwrap_or(0.0)).collect();
    // The largest flight of the slow start, of 40 packets or more: paced, it would take half a
    // round trip, 400 ms.
    let full: Vec<usize> = (0..rates.len()).filter(|&at| rates[at] > 0.0).collect();
    let bits = |flight: &[usize]| flight.iter().map(|&at| rates[at] / 1000.0).sum::<f64>();
    let flights = full.chunk_by(|before, after| after - before < 200);
    let flight = flights.max_by(|a, b| bits(a).total_cmp(&bits(b))).unwrap();
    assert!(bits(flight) > 40.0 * 1500.0 * 8.0, "{flight:?}");
    assert!(flight.last().unwrap() - flight[0] < 200, "{flight:?}");
}
