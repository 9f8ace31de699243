//! Experiment and activity, which the registry of scitags.org numbers.

use std::fmt;
use std::ops::RangeInclusive;

use serde::Deserialize;
use thiserror::Error;

/// Numbers that experiments can have: nine bits of a flow label, without 0, which says nothing.
const EXPERIMENTS: RangeInclusive<u16> = 1..=511;
/// Numbers that activities can have: six bits of a flow label, without 0, which says nothing.
const ACTIVITIES: RangeInclusive<u16> = 1..=63;
/// Greatest number of names that an error lists.
const NAMED: usize = 20;

/// Numbers of the experiment and the activity to which the data of a transfer belongs, as networks
/// account for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    experiment: u16,
    activity: u16,
}

/// Reason why a text or numbers are no tag, or a registry cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TagError {
    /// The text does not have two parts.
    #[error("expected EXPERIMENT.ACTIVITY, such as 2.14 or, with a registry, atlas.production")]
    Form,
    /// A number that no experiment or activity can have.
    #[error("{what} {number}: expected a number from {} to {}", allowed.start(), allowed.end())]
    Range {
        /// The wrong part: experiment or activity.
        what: &'static str,
        /// The number given.
        number: u16,
        /// Range of the numbers that are allowed.
        allowed: RangeInclusive<u16>,
    },
    /// A name was given without a registry.
    #[error("{0:?} is not a number; write a number, or name the registry of names with --scitags-registry FILE")]
    NoRegistry(String),
    /// A name that the registry does not have.
    #[error("the registry has no {what} {name:?}; it has {known}")]
    Unknown {
        /// The wrong part: experiment or activity.
        what: &'static str,
        /// The name given.
        name: String,
        /// Names in the registry, as text.
        known: String,
    },
    /// The registry cannot be read, for this reason.
    #[error("the registry is not what scitags.org publishes: {0}")]
    Registry(String),
}

/// Numbers of experiments and of their activities by name, in the form of
/// `https://www.scitags.org/api.json`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Registry {
    experiments: Vec<Experiment>,
}

/// An experiment in the registry's JSON, with its activities.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Experiment {
    exp_name: String,
    exp_id: u16,
    #[serde(default)]
    activities: Vec<Activity>,
}

/// An activity of an experiment in the registry's JSON.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Activity {
    activity_name: String,
    activity_id: u16,
}

impl Registry {
    /// Parses the registry, in the JSON that scitags.org publishes.
    ///
    /// # Errors
    /// The JSON is no such registry.
    pub fn parse(json: &[u8]) -> Result<Self, TagError> {
        serde_json::from_slice(json).map_err(|error| TagError::Registry(error.to_string()))
    }
}

impl Tag {
    /// The tag of these numbers.
    ///
    /// # Errors
    /// [`TagError::Range`].
    pub fn new(experiment: u16, activity: u16) -> Result<Self, TagError> {
        let check = |what, number, allowed: RangeInclusive<u16>| match allowed.contains(&number) {
            true => Ok(()),
            false => Err(TagError::Range { what, number, allowed }),
        };
        check("experiment", experiment, EXPERIMENTS)?;
        check("activity", activity, ACTIVITIES)?;
        Ok(Self { experiment, activity })
    }

    /// Reads `EXPERIMENT.ACTIVITY`, each a number or a name of the registry.
    ///
    /// # Errors
    /// See [`TagError`].
    pub fn parse(text: &str, registry: Option<&Registry>) -> Result<Self, TagError> {
        let (experiment, activity) = text.split_once('.').ok_or(TagError::Form)?;
        if experiment.is_empty() || activity.is_empty() {
            return Err(TagError::Form);
        }
        let of_registry = |name: &str| registry.ok_or_else(|| TagError::NoRegistry(name.to_owned()));
        let number = match experiment.parse() {
            Ok(number) => number,
            Err(_) => find("experiment", experiment, named_experiments(of_registry(experiment)?))?,
        };
        let activity = match activity.parse() {
            Ok(activity) => activity,
            Err(_) => {
                let registry = of_registry(activity)?;
                let activities = registry.experiments.iter().filter(|known| known.exp_id == number);
                let activities = activities.flat_map(|known| &known.activities);
                find("activity", activity, activities.map(|known| (known.activity_name.as_str(), known.activity_id)))?
            }
        };
        Self::new(number, activity)
    }

    /// Number of the experiment.
    #[must_use]
    pub fn experiment(self) -> u16 {
        self.experiment
    }

    /// Number of the activity.
    #[must_use]
    pub fn activity(self) -> u16 {
        self.activity
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.experiment, self.activity)
    }
}

/// Names and numbers of all experiments of the registry.
fn named_experiments(registry: &Registry) -> impl Iterator<Item = (&str, u16)> + Clone {
    registry.experiments.iter().map(|known| (known.exp_name.as_str(), known.exp_id))
}

/// Number of the entry `name` among those known, in any case of letters; `what` is the kind of
/// entry in errors.
fn find<'a>(
    what: &'static str,
    name: &str,
    known: impl Iterator<Item = (&'a str, u16)> + Clone,
) -> Result<u16, TagError> {
    let found = known.clone().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, number)| number).ok_or_else(|| {
        let mut names: Vec<&str> = known.map(|(known, _)| known).collect();
        let more = if names.len() > NAMED { ", …" } else { "" };
        names.truncate(NAMED);
        TagError::Unknown { what, name: name.to_owned(), known: format!("{}{more}", names.join(", ")) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLISHED: &str = r#"{"version": 1, "modified": "2024-01-01T00:00:00Z", "experiments": [
        {"expName": "default", "expId": 1, "activities": [{"activityName": "default", "activityId": 1}]},
        {"expName": "atlas", "expId": 2, "activities": [
            {"activityName": "perfsonar", "activityId": 2}, {"activityName": "Data Consolidation", "activityId": 4}]}]}"#;

    #[test]
    fn numbers_and_names_are_tags() {
        let registry = Registry::parse(PUBLISHED.as_bytes()).unwrap();
        for (text, numbers) in
            [("2.4", (2, 4)), ("ATLAS.data consolidation", (2, 4)), ("atlas.9", (2, 9)), ("2.perfsonar", (2, 2))]
        {
            let tag = Tag::parse(text, Some(&registry)).unwrap();
            assert_eq!((tag.experiment(), tag.activity()), numbers, "{text}");
        }
        assert_eq!(Tag::parse("511.63", None).unwrap().to_string(), "511.63");
    }

    #[test]
    fn what_is_no_tag_is_named() {
        let registry = Registry::parse(PUBLISHED.as_bytes()).unwrap();
        let refused = [
            ("2", "EXPERIMENT.ACTIVITY"),
            (".1", "EXPERIMENT.ACTIVITY"),
            ("0.1", "from 1 to 511"),
            ("512.1", "from 1 to 511"),
            ("1.64", "from 1 to 63"),
            ("cms.1", "no experiment \"cms\"; it has default, atlas"),
            ("default.perfsonar", "no activity \"perfsonar\"; it has default"),
            ("-1.1", "no experiment \"-1\""),
        ];
        for (text, reason) in refused {
            let told = Tag::parse(text, Some(&registry)).unwrap_err().to_string();
            assert!(told.contains(reason), "{text}: {told}");
        }
        assert!(Tag::parse("atlas.1", None).unwrap_err().to_string().contains("--scitags-registry"));
        assert!(Registry::parse(br#"{"experiments": [{"expName": "x", "expId": 70000}]}"#).is_err());
    }
}
