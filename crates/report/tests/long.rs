//! Ten minutes at 1 ms: the page stays small, and nothing is lost on the way to other tools.
//! With `ICDC_REPORT_PAGE=FILE.html` the page is kept for a look at it.

use icdc_report::packed;

mod support;

#[test]
fn ten_minutes_at_a_millisecond_stay_small_and_whole() {
    let report = support::long_report();
    let page = report.to_html();
    if let Ok(path) = std::env::var("ICDC_REPORT_PAGE") {
        std::fs::write(path, &page).unwrap();
    }
    assert!(page.len() < 5_000_000, "{} bytes", page.len());

    let (_, rest) = page.split_once("id=icdc-report>").unwrap();
    let (json, _) = rest.split_once("</script>").unwrap();
    let embedded: serde_json::Value = serde_json::from_str(json).unwrap();
    let expanded: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    let uniform = &embedded["plots"][0]["series"][0]["uniform"];
    let bytes = packed::decode(uniform["packed"].as_str().unwrap()).unwrap();
    let rates = expanded["plots"][0]["series"][0]["values"].as_array().unwrap();
    assert_eq!((bytes.len(), rates.len()), (support::LENGTH, support::LENGTH));
    assert_eq!((&uniform["count"], &uniform["scale"]), (&support::LENGTH.into(), &8000.0.into()));
    assert!(bytes.iter().zip(rates).all(|(bytes, rate)| rate.as_i64() == Some(bytes * 8000)));

    let csv = report.to_csv();
    let (_, text) = csv.iter().find(|(name, _)| name == "series_1ms.csv").unwrap();
    assert_eq!(text.lines().next(), Some("time_ms,throughput_bps,drops_count,queue_bytes"));
    let column: Vec<i64> = text.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().parse().unwrap()).collect();
    assert!(bytes.iter().zip(column.iter()).all(|(bytes, rate)| *rate == bytes * 8000) && column.len() == bytes.len());
    assert!(csv.iter().all(|(_, text)| !text.contains("NaN") && !text.contains("inf")));
}
