//! The list of algorithms, and one of them with its parameters.

use icdc_cc::Algorithm;
use icdc_tcp::congestion::{self, Availability, Holder, Listed};
use serde_json::{Value, json};

use crate::console::Console;

/// Prints the kernel's and icdc's congestion control algorithms.
pub(super) fn list(console: &Console, as_json: bool) {
    let list = congestion::list();
    if as_json {
        let list: Vec<Value> = list.iter().map(object).collect();
        console.json(&Value::from(list).to_string());
        return;
    }
    for one in &list {
        let who = match one.state {
            Availability::BuiltIn | Availability::Loaded(_) if one.for_anyone => "anyone",
            Availability::Unavailable(_) => "nobody",
            _ => "root",
        };
        let mut line = format!("{:<12} {:<12} {who:<7}", one.name, state(&one.state));
        let details = details(one);
        if !details.is_empty() {
            line = format!("{line} {details}");
        }
        console.result(line.trim_end());
    }
}

/// State of an algorithm in a word or two.
fn state(state: &Availability) -> &'static str {
    match state {
        Availability::BuiltIn => "built in",
        Availability::Loaded(_) => "loaded",
        Availability::Loadable => "loadable",
        Availability::Unavailable(_) => "unavailable",
    }
}

/// Further text about an algorithm by its state: what keeps it loaded, its summary, or why it is
/// unavailable.
fn details(one: &Listed) -> String {
    match &one.state {
        Availability::BuiltIn => String::new(),
        Availability::Loaded(holder) => format!("as {}, {holder}", one.kernel_name),
        Availability::Loadable => one.summary.to_owned(),
        Availability::Unavailable(obstacle) => obstacle.to_string(),
    }
}

/// JSON object of a listed algorithm.
fn object(one: &Listed) -> Value {
    let mut object = json!({
        "name": one.name,
        "kernel_name": one.kernel_name,
        "summary": one.summary,
        "state": state(&one.state).replace(' ', "_"),
        "for_anyone": one.for_anyone,
    });
    match &one.state {
        Availability::Loaded(holder) => object["holder"] = self::holder(holder),
        Availability::Unavailable(obstacle) => object["reason"] = json!(obstacle.to_string()),
        Availability::BuiltIn | Availability::Loadable => {}
    }
    object
}

/// JSON object of what keeps an algorithm loaded.
fn holder(holder: &Holder) -> Value {
    match holder {
        Holder::Pinned(path) => json!({ "kind": "pin", "path": path.to_string_lossy() }),
        Holder::Process { id, command } => json!({ "kind": "process", "pid": id, "command": command }),
        Holder::Nobody => json!({ "kind": "nobody" }),
        Holder::Elsewhere => json!({ "kind": "elsewhere" }),
        Holder::Hidden => json!({ "kind": "hidden" }),
    }
}

/// Prints one of icdc's algorithms with its parameters.
pub(super) fn one(console: &Console, algorithm: &'static Algorithm, as_json: bool) {
    let name = algorithm.kernel_name();
    let Some(listed) = congestion::list().into_iter().find(|one| one.kernel_name == name) else { return };
    let current = congestion::parameters(algorithm);
    let current = |name: &str| current.as_ref()?.iter().find(|(one, _)| one == name).map(|(_, value)| *value);
    if as_json {
        let mut object = object(&listed);
        let parameters = algorithm.parameters().into_iter().map(|parameter| {
            json!({
                "name": parameter.name,
                "help": parameter.help,
                "initial": parameter.initial,
                "lowest": parameter.lowest,
                "highest": parameter.highest,
                "current": current(parameter.name),
            })
        });
        object["parameters"] = parameters.collect();
        console.json(&object.to_string());
        return;
    }
    console.result(&format!("{}: {}", algorithm.name, algorithm.summary));
    let details = match listed.state {
        Availability::Loadable => format!("as {name}"),
        _ => details(&listed),
    };
    console.result(&format!("{}, {details}", state(&listed.state)));
    for parameter in algorithm.parameters() {
        let now = current(parameter.name).map_or_else(String::new, |value| format!("; {value} as loaded"));
        console.result(&format!(
            "  {} = {} ({} to {}{now})\n      {}",
            parameter.name, parameter.initial, parameter.lowest, parameter.highest, parameter.help
        ));
    }
}
