//! A long report in a real browser: the script runs, draws what the static page shows, and zooms to
//! single milliseconds.
//!
//! Skipped where there is no Chromium.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

mod support;

/// Catches what goes wrong from the first line on, and makes frames a matter of the browser's
/// virtual time.
const WATCH: &str = "<script>
addEventListener('error', (event) => { document.documentElement.dataset.error = event.message; });
window.requestAnimationFrame = (then) => setTimeout(then, 16);
</script><main>";

/// What a reader does.
const READER: &str = include_str!("reader.js");

#[test]
fn a_long_page_opens_and_zooms() {
    let Some(browser) = browser() else {
        println!("skipped: neither chromium nor google-chrome is installed");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("run.html");
    let html = support::long_report().to_html().replace("<main>", WATCH);

    fs::write(&page, format!("{html}<script>{READER}</script>")).unwrap();
    let dom = open(&browser, directory.path(), &format!("file://{}", page.display()));
    assert!(dom.contains("data-live") && !dom.contains("data-error"), "{}", head(&dom));
    assert_eq!(dom.matches("<svg ").count(), 8 + 3);
    for outcome in [
        "data-wheel=\"true\"",
        "data-whole=\"true\"",
        "data-picked=\"2:30 – 5:00 (150 s)\"",
        "data-pinched=\"3:30.0 – 4:00.0 (30 s)\"",
        "data-later=\"3:45.0 – 4:15.0 (30 s)\"",
        "data-differs=\"\"",
    ] {
        assert!(dom.contains(outcome), "{outcome}: {}", head(&dom));
    }

    // Twenty milliseconds, one packet in every second of them: each step is drawn.
    fs::write(directory.path().join("near.html"), html).unwrap();
    let near = format!("file://{}#t=60.1,60.12", directory.path().join("near.html").display());
    let dom = open(&browser, directory.path(), &near);
    let line = dom.split_once("data-line=\"0\" d=\"").and_then(|(_, rest)| rest.split_once('"')).unwrap().0;
    assert_eq!(line.matches('H').count(), 20, "{line}");
    assert!(dom.contains(">1:00.100</text>") && dom.contains("(20 ms)"), "{}", head(&dom));
}

fn browser() -> Option<PathBuf> {
    let places = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut all = names.iter().flat_map(|name| std::env::split_paths(&places).map(move |place| place.join(name)));
    all.find(|path| path.is_file())
}

/// The page's elements once its script has run. The browser must have nothing to say about it.
fn open(browser: &Path, directory: &Path, address: &str) -> String {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"])
        .args(["--enable-logging=stderr", "--window-size=1000,2000", "--virtual-time-budget=4000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", directory.join("profile").display()))
        .arg(address)
        .output()
        .expect("the browser starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let console: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "{console:?}");
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).expect("a page in UTF-8")
}

fn head(dom: &str) -> &str {
    dom.get(..600).unwrap_or(dom)
}
