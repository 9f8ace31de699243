//! Whether an object is one of the Kubernetes API, by the part of its OpenAPI description that is
//! beside this file. As strict as the API server is with `--validate=strict`: a field that is not
//! known is an error.

use serde_json::Value;

const DESCRIPTION: &str = include_str!("kubernetes-1.36.json");

/// What is wrong with an object, each by `PATH: what`.
pub(crate) fn errors(object: &Value) -> Vec<String> {
    let description: Value = serde_json::from_str(DESCRIPTION).unwrap();
    let definitions = &description["definitions"];
    let (version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
    let name = match (version.unwrap_or_default(), kind.unwrap_or_default()) {
        ("v1", kind) => format!("io.k8s.api.core.v1.{kind}"),
        (version, kind) => format!("io.k8s.api.{}.{kind}", version.replace('/', ".")),
    };
    let mut errors = Vec::new();
    match definitions.get(&name) {
        Some(definition) => check(object, definition, definitions, kind.unwrap_or_default(), &mut errors),
        None => errors.push(format!("{name} is not known")),
    }
    errors
}

fn check(value: &Value, schema: &Value, definitions: &Value, path: &str, errors: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.trim_start_matches("#/definitions/");
        return check(value, &definitions[name], definitions, path, errors);
    }
    // A number of bytes, say, may be written as either.
    let is_quantity = schema["format"] == "int-or-string" || path.contains(".resources.");
    let fits = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string() || (is_quantity && value.is_number()),
        Some("integer") => value.is_i64(),
        Some("boolean") => value.is_boolean(),
        kind => panic!("{path}: the description has a type {kind:?}"),
    };
    if !fits {
        return errors.push(format!("{path}: {value} is no {}", schema["type"]));
    }
    for (number, item) in value.as_array().into_iter().flatten().enumerate() {
        check(item, &schema["items"], definitions, &format!("{path}[{number}]"), errors);
    }
    for (name, item) in value.as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        match schema["properties"].get(name).or_else(|| schema.get("additionalProperties")) {
            Some(schema) => check(item, schema, definitions, &path, errors),
            None => errors.push(format!("{path}: there is no such field")),
        }
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(name).is_none() {
            errors.push(format!("{path}: {name} is missing"));
        }
    }
}
