//! The page around the plots.

use std::fmt::Write;

use crate::escape::escaped;
use crate::{Axis, Judgement, Report, heat_map, json, plot};

/// Number of stages that have a colour of their own in the page's style sheet; further ones repeat
/// them.
const STAGE_COLOURS: usize = 10;
/// Maximum number of failures that the page lists; those beyond it are counted.
const MAX_FAILURES: usize = 1000;
/// Content security policy to which browsers hold the page: nothing is fetched, from nowhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
/// Number of characters beyond which a fact of the summary gets a line of its own.
const LONG_FACT: usize = 32;

/// The report as one HTML page without references to other files.
pub(crate) fn page(report: &Report) -> String {
    let mut page = String::new();
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n\
         <meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
         <meta name=color-scheme content=\"light dark\">\n\
         <meta http-equiv=Content-Security-Policy content=\"{POLICY}\">\n\
         <title>{title}</title>\n<style>\n{style}</style>\n<main>\n<h1>{title}</h1>\n",
        title = escaped(&report.title),
        style = include_str!("style.css"),
    );
    if !report.outcome.is_empty() {
        let class = match report.judgement {
            Judgement::Good => "outcome",
            Judgement::Limited => "outcome limited",
            Judgement::Failed => "outcome failed",
        };
        let _ = writeln!(page, "<p class=\"{class}\">{}</p>", escaped(&report.outcome));
    }
    // Whoever opens the page of a run that failed looks for these first.
    failures(&mut page, report);
    if !report.command.is_empty() {
        let _ = writeln!(page, "<pre>{}</pre>", escaped(&report.command));
    }
    facts(&mut page, report);
    stages(&mut page, report);
    for table in &report.tables {
        table.draw(&mut page);
    }
    heat_map::draw_all(&mut page, &report.heat_maps);
    let over_time = report.plots.iter().filter(|plot| plot.axis == Axis::Time);
    let end = over_time.flat_map(|plot| &plot.series).map(|series| series.values.end()).fold(0.0, f64::max);
    for (index, plot) in report.plots.iter().enumerate() {
        page.push_str(&plot::draw(plot, index, end));
    }
    data(&mut page, report);
    page.push_str("</main>\n</html>\n");
    page
}

/// Appends the summary's names and values to the page.
fn facts(page: &mut String, report: &Report) {
    if report.summary.is_empty() {
        return;
    }
    page.push_str("<dl>\n");
    for (name, value) in &report.summary {
        let class = if value.chars().count() > LONG_FACT { " class=long" } else { "" };
        let _ = writeln!(page, "<div{class}><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(value));
    }
    page.push_str("</dl>\n");
}

/// Appends a bar whose parts are the stages' shares of the time, and their names with percentages
/// below it.
fn stages(page: &mut String, report: &Report) {
    let shown = || report.stages.iter().enumerate().filter(|(_, (_, share))| share.is_finite() && *share > 0.0);
    let total: f64 = shown().map(|(_, (_, share))| share).sum();
    if total <= 0.0 {
        return;
    }
    page.push_str("<figure><figcaption><b>What the time went into waiting for</b></figcaption>\n<div class=bar>");
    for (index, (name, share)) in shown() {
        let _ = write!(
            page,
            "<span class=s{} style=\"flex-grow:{:.4}\" title=\"{} {}\"></span>",
            index % STAGE_COLOURS,
            share / total,
            escaped(name),
            percent(*share)
        );
    }
    page.push_str("</div>\n<div class=shares>");
    for (index, (name, share)) in shown() {
        let _ = write!(
            page,
            "<span><i class=s{}></i>{} <b>{}</b></span>",
            index % STAGE_COLOURS,
            escaped(name),
            percent(*share)
        );
    }
    page.push_str("</div></figure>\n");
}

/// A share from 0 to 1 as text in whole per cent; `< 1%` for less.
fn percent(share: f64) -> String {
    match share * 100.0 {
        small if small < 0.95 => "< 1%".into(),
        usual => format!("{usual:.0}%"),
    }
}

/// Appends the list of what failed to the page.
fn failures(page: &mut String, report: &Report) {
    if report.failures.is_empty() {
        return;
    }
    let count = report.failures.len();
    let _ = writeln!(page, "<section class=failures><h2>Failed: {count}</h2>\n<ul>");
    for failure in report.failures.iter().take(MAX_FAILURES) {
        let _ = writeln!(page, "<li>{}</li>", escaped(failure));
    }
    if count > MAX_FAILURES {
        let _ = writeln!(page, "<li>… and {} more</li>", count - MAX_FAILURES);
    }
    page.push_str("</ul></section>\n");
}

/// Appends the report's model as JSON, for the page's script and for other tools, and the script.
fn data(page: &mut String, report: &Report) {
    let json = json::embedded(report);
    // Nothing inside may look like the end of the element.
    let json = json.replace('<', "\\u003c");
    let _ = writeln!(page, "<script type=\"application/json\" id=icdc-report>{json}</script>");
    if !report.plots.is_empty() {
        let _ = writeln!(page, "<script>\n{}</script>", plot::ZOOM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use icdc_units::Span;

    use crate::{Categories, HeatMap, Plot, Series, Stroke, Table, Uniform, Unit};

    fn named(name: &str) -> Report {
        let name = name.to_owned();
        let uniform = Uniform::new(Span::ZERO, Span::from_millis(1), vec![1, 2, 3]);
        let series = vec![
            Series::new(&name, Stroke::Area, vec![(1.0, 1.0)]),
            Series::new(&name, Stroke::Strong, uniform).column(&name),
        ];
        let plot = Plot::new(&name, Unit::Bytes, series);
        Report {
            title: name.clone(),
            command: name.clone(),
            outcome: name.clone(),
            judgement: Judgement::Failed,
            summary: vec![(name.clone(), name.clone())],
            stages: vec![(name.clone(), 1.0)],
            tables: vec![Table {
                caption: name.clone(),
                header: vec![name.clone()],
                rows: vec![vec![name.clone(), name.clone()]],
            }],
            heat_maps: vec![HeatMap::new(
                &name,
                Unit::Share,
                Categories::new(&name, [&name]),
                Categories::new(&name, [&name, &name]),
                vec![vec![Some(0.5), None]],
            )],
            plots: vec![plot.clone(), plot.over(&name, Unit::Number)],
            origin: None,
            failures: vec![name],
        }
    }

    fn hostile() -> Report {
        named("</script><script>alert('1')</script>\"\u{1b}[2J")
    }

    #[test]
    fn names_from_outside_cannot_become_markup() {
        let (page, harmless) = (hostile().to_html(), named("name").to_html());
        for markup in ["<script", "</script", "<svg", "onerror", "<!--"] {
            assert_eq!(page.matches(markup).count(), harmless.matches(markup).count(), "{markup} in {page}");
        }
        assert!(!page.contains('\u{1b}') && !page.contains("<script>alert"));
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let page = hostile().to_html();
        for reference in ["http:", "https:", "url(", "src=", "href=", "@import"] {
            assert!(!page.contains(reference), "{reference}");
        }
    }

    #[test]
    fn the_embedded_data_is_the_model() {
        let report = hostile();
        let page = report.to_html();
        let (_, rest) = page.split_once("id=icdc-report>").unwrap();
        let (json, _) = rest.split_once("</script>").unwrap();
        let value: serde_json::Value = serde_json::from_str(json).unwrap();
        let mut expected = serde_json::to_value(&report).unwrap();
        expected["format"] = value["format"].clone();
        assert_eq!(value, expected);
        let packed = value["plots"][0]["series"][1]["uniform"]["packed"].as_str().unwrap();
        assert_eq!(crate::packed::decode(packed).unwrap(), [1, 2, 3]);
        assert_eq!(value["plots"][0]["series"][0]["points"][0][1], 1.0);
    }

    #[test]
    fn an_empty_report_is_still_a_page() {
        let page = Report::default().to_html();
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert!(!page.contains("<dl>") && !page.contains("<figure>"));
    }

    #[test]
    fn a_stage_has_its_colour_whatever_others_have_a_share() {
        let stages = |scan| vec![("scan".to_owned(), scan), ("network".to_owned(), 0.5)];
        let page = |scan| Report { stages: stages(scan), ..Report::default() }.to_html();
        for page in [page(0.0), page(0.5)] {
            assert!(page.contains("<i class=s1></i>network"), "{page}");
        }
        assert!(!page(0.0).contains("scan <b>"));
    }

    #[test]
    fn an_outcome_has_the_colour_of_its_judgement() {
        let page = |judgement| Report { outcome: "so".into(), judgement, ..Report::default() }.to_html();
        assert!(page(Judgement::Good).contains("<p class=\"outcome\">"));
        assert!(page(Judgement::Limited).contains("<p class=\"outcome limited\">"));
        assert!(page(Judgement::Failed).contains("<p class=\"outcome failed\">"));
    }

    #[test]
    fn failures_come_before_everything_else() {
        let page = named("name").to_html();
        let place = |mark: &str| page.find(mark).unwrap();
        assert!(place("class=failures") < place("<pre>") && place("class=failures") < place("<dl>"));
    }

    #[test]
    fn many_failures_are_counted() {
        let failures = (0..1500).map(|number| format!("file {number}")).collect();
        let page = Report { failures, ..Report::default() }.to_html();
        assert!(page.contains("Failed: 1500") && page.contains("… and 500 more"));
    }

    #[test]
    fn small_shares_do_not_become_zero() {
        assert_eq!(percent(0.004), "< 1%");
        assert_eq!(percent(0.0096), "1%");
        assert_eq!(percent(1.0), "100%");
    }
}
