//! Classes as a file describes them (TOML).

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use icdc_scheduler::{ClassSettings, Discipline, Filter, QueueSettings, Tree};
use icdc_units::{ByteCount, Prefix, Rate, Span};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use super::error::WireError;

/// Usual target of CoDel (RFC 8289, section 4).
const TARGET: Span = Span::from_millis(5);
/// Usual interval of CoDel (RFC 8289, section 4).
const INTERVAL: Span = Span::from_millis(100);

/// The user's file of classes of traffic, parsed, with its path for errors.
#[derive(Clone, Debug)]
pub struct Classes {
    path: PathBuf,
    file: File,
}

/// Contents of the file: its classes, and the name of the one for frames that no filter sorts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    default: Option<String>,
    #[serde(default)]
    class: Vec<Class>,
}

/// A class in the file: its place in the tree, rates, queue and filters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Class {
    name: String,
    parent: Option<String>,
    #[serde(default, deserialize_with = "parsed")]
    rate: Option<Rate>,
    #[serde(default, deserialize_with = "parsed")]
    ceiling: Option<Rate>,
    #[serde(default, deserialize_with = "parsed")]
    queue: Option<ByteCount>,
    #[serde(default, deserialize_with = "parsed")]
    mark: Option<ByteCount>,
    codel: Option<CoDel>,
    #[serde(default)]
    filter: Vec<FilterEntry>,
}

/// Settings of CoDel in the file; `None` means the usual ones.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CoDel {
    #[serde(default, deserialize_with = "parsed")]
    target: Option<Span>,
    #[serde(default, deserialize_with = "parsed")]
    interval: Option<Span>,
}

/// A filter in the file: frames that match all its fields are sorted into its class; `None` matches
/// any.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FilterEntry {
    #[serde(default, deserialize_with = "prefix")]
    to: Option<Prefix>,
    #[serde(default, deserialize_with = "prefix")]
    from: Option<Prefix>,
    #[serde(default, deserialize_with = "protocol")]
    protocol: Option<u8>,
    #[serde(default, deserialize_with = "ports")]
    ports: Option<RangeInclusive<u16>>,
    #[serde(default, deserialize_with = "ports")]
    source_ports: Option<RangeInclusive<u16>>,
    dscp: Option<u8>,
}

impl Classes {
    /// Reads and checks a file of classes.
    ///
    /// # Errors
    /// [`WireError::Classes`]: it cannot be read, or does not say what it has to.
    pub fn read(path: &Path) -> Result<Self, WireError> {
        let failed = |reason: String| WireError::Classes { path: path.to_owned(), reason };
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let file = parse(&text).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Makes the tree of these classes for a line of this rate.
    ///
    /// # Errors
    /// [`WireError::Tree`]: they are no valid tree on such a line.
    pub fn tree(&self, line: Rate) -> Result<Tree, WireError> {
        let settings: Vec<ClassSettings> = self.file.class.iter().map(settings).collect();
        Tree::new(line, &settings, self.file.default.as_deref())
            .map_err(|cause| WireError::Tree { path: self.path.clone(), cause })
    }
}

/// Parses and checks the text of a file; an error is a sentence for the user.
fn parse(text: &str) -> Result<File, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    for class in &file.class {
        if class.mark.is_some() && class.codel.is_some() {
            return Err(format!("class {}: a queue is either marked from a length on or under CoDel", class.name));
        }
        if let Some(dscp) = class.filter.iter().filter_map(|filter| filter.dscp).find(|dscp| *dscp > 63) {
            return Err(format!("class {}: a DSCP is 0 to 63, not {dscp}", class.name));
        }
    }
    if file.class.is_empty() { Err("there is no [[class]] in it".to_owned()) } else { Ok(file) }
}

/// Settings of a class for the scheduler, with the usual values for what the file leaves out.
fn settings(class: &Class) -> ClassSettings {
    let usual = QueueSettings::default();
    let discipline = match (&class.mark, &class.codel) {
        (Some(threshold), _) => Discipline::Mark(*threshold),
        (None, Some(codel)) => {
            Discipline::CoDel { target: codel.target.unwrap_or(TARGET), interval: codel.interval.unwrap_or(INTERVAL) }
        }
        (None, None) => usual.discipline,
    };
    let filter = |sorted: &FilterEntry| Filter {
        to: sorted.to,
        from: sorted.from,
        protocol: sorted.protocol,
        ports: sorted.ports.clone(),
        source_ports: sorted.source_ports.clone(),
        dscp: sorted.dscp,
    };
    ClassSettings {
        name: class.name.clone(),
        parent: class.parent.clone(),
        rate: class.rate,
        ceiling: class.ceiling,
        queue: QueueSettings { limit: class.queue.unwrap_or(usual.limit), discipline },
        filters: class.filter.iter().map(filter).collect(),
    }
}

/// Deserializes a quantity from text, with its unit.
fn parsed<'de, D, T>(input: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    String::deserialize(input)?.parse().map(Some).map_err(D::Error::custom)
}

/// Deserializes a prefix or an address from text.
fn prefix<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Prefix>, D::Error> {
    Prefix::of_text(&String::deserialize(input)?).map(Some).map_err(D::Error::custom)
}

/// A value in the file that may be a number or a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Word {
    /// A number in the file.
    Number(u16),
    /// A text in the file.
    Text(String),
}

/// Deserializes an IP protocol, by name or number.
fn protocol<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u8>, D::Error> {
    let expected = "a protocol is \"tcp\", \"udp\", \"icmp\", \"icmpv6\", or a number from 0 to 255";
    let number = match Word::deserialize(input)? {
        Word::Number(number) => u8::try_from(number).ok(),
        Word::Text(text) => match text.as_str() {
            "tcp" => Some(6),
            "udp" => Some(17),
            "icmp" => Some(1),
            "icmpv6" => Some(58),
            _ => None,
        },
    };
    number.map(Some).ok_or_else(|| D::Error::custom(expected))
}

/// Deserializes a port or a range of ports.
fn ports<'de, D: Deserializer<'de>>(input: D) -> Result<Option<RangeInclusive<u16>>, D::Error> {
    let range = match Word::deserialize(input)? {
        Word::Number(port) => Some(port..=port),
        Word::Text(text) => {
            let (low, high) = text.split_once('-').unwrap_or((&text, &text));
            low.parse().ok().zip(high.parse().ok()).map(|(low, high)| low..=high).filter(|range| !range.is_empty())
        }
    };
    range.map(Some).ok_or_else(|| D::Error::custom("ports are a number, or two with a dash: 5201 or \"5000-5010\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r#"
        default = "rest"

        [[class]]
        name = "site"
        rate = "500mbit"
        ceiling = "600mbit"

        [[class]]
        name = "bulk"
        parent = "site"
        rate = "100mbit"
        queue = "2MB"
        codel = { target = "10ms" }
        filter = [{ to = "192.0.2.0/24", protocol = "tcp", ports = "5000-5010" }, { to = "2001:db8::/32", dscp = 8 }]

        [[class]]
        name = "rest"
        mark = "100kB"
    "#;

    #[test]
    fn a_file_says_all_that_classes_can_be() {
        let file = parse(FULL).unwrap();
        let classes: Vec<ClassSettings> = file.class.iter().map(settings).collect();
        let bulk = &classes[1];
        assert_eq!((bulk.rate, bulk.parent.as_deref()), (Some("100mbit".parse().unwrap()), Some("site")));
        assert_eq!(bulk.queue.limit, ByteCount::new(2_000_000));
        assert_eq!(bulk.queue.discipline, Discipline::CoDel { target: Span::from_millis(10), interval: INTERVAL });
        let filter = Filter {
            to: Some("192.0.2.0/24".parse().unwrap()),
            protocol: Some(6),
            ports: Some(5000..=5010),
            ..Filter::default()
        };
        assert_eq!((&bulk.filters[0], bulk.filters[1].dscp), (&filter, Some(8)));
        assert_eq!(classes[2].queue.discipline, Discipline::Mark(ByteCount::new(100_000)));
        assert!(Tree::new("1gbit".parse().unwrap(), &classes, file.default.as_deref()).is_ok());
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        let class = |words: &str| parse(&format!("[[class]]\nname = \"a\"\n{words}")).map(drop);
        assert!(class("").is_ok());
        for (words, said) in [
            ("rate = 500", "string"),
            ("rate = \"500\"", "900mbit"),
            ("rates = \"5mbit\"", "rates"),
            ("filter = [{ to = \"192.0.2.1/33\" }]", "192.0.2.0/24"),
            ("filter = [{ protocol = \"tpc\" }]", "tcp"),
            ("filter = [{ protocol = 256 }]", "255"),
            ("filter = [{ ports = \"10-5\" }]", "5000-5010"),
            ("filter = [{ dscp = 64 }]", "63"),
            ("mark = \"1MB\"\ncodel = {}", "either"),
        ] {
            let error = class(words).unwrap_err();
            assert!(error.contains(said), "{words}: {error}");
        }
        assert!(parse("").unwrap_err().contains("[[class]]"));
    }
}
