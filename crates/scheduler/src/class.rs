//! Settings of classes, and the rules for trees of them.

use icdc_units::Rate;
use thiserror::Error;

use super::{Filter, Headers, QueueSettings};

/// Settings of one class of traffic, as a user describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassSettings {
    /// Name of the class.
    pub name: String,
    /// Name of the parent class; `None` for a class directly under the line.
    pub parent: Option<String>,
    /// Guaranteed rate; `None`: only bandwidth that others leave.
    pub rate: Option<Rate>,
    /// Upper limit of the rate; `None` for the rate itself, or all that others leave if it has
    /// none.
    pub ceiling: Option<Rate>,
    /// Settings of the queue of the class's frames.
    pub queue: QueueSettings,
    /// Filters that select the class's frames. The first filter that matches decides, in the order
    /// of classes.
    pub filters: Vec<Filter>,
}

/// A class of traffic with its position in the tree: the index of its parent, and whether it is a
/// leaf. Only leaves get frames.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Placed {
    pub(super) settings: ClassSettings,
    pub(super) parent: Option<usize>,
    pub(super) is_leaf: bool,
}

impl Placed {
    /// Rate that the class, with all classes below it, must not exceed, kept by a clock of its own:
    /// of a leaf its ceiling, of an inner class its ceiling or else its rate. `None` if there is
    /// none.
    pub(super) fn ceiling(&self) -> Option<Rate> {
        let ClassSettings { rate, ceiling, .. } = &self.settings;
        // A leaf without more than its rate is held by its clock alone.
        if self.is_leaf { *ceiling } else { ceiling.or(*rate) }
    }

    /// Whether the class may exceed its rate where the line has capacity left.
    pub(super) fn borrows(&self) -> bool {
        match (self.settings.rate, self.settings.ceiling) {
            (None, _) => true,
            (Some(rate), Some(ceiling)) => ceiling > rate,
            (Some(_), None) => false,
        }
    }
}

/// Reason for which a tree of classes is invalid.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TreeError {
    /// The tree has no class.
    #[error("there is no class")]
    Empty,
    /// A class has no name, or the name of another.
    #[error("class {0:?}: every class has a name of its own")]
    Name(String),
    /// The parent of a class is not a class before it.
    #[error("class {name}: its parent {parent:?} is no class before it")]
    Parent {
        /// Name of the class.
        name: String,
        /// Name of the parent as given.
        parent: String,
    },
    /// A class that is no leaf has filters, which sort frames into leaves only.
    #[error("class {0}: it has classes of its own, so its filters belong to them")]
    FiltersAboveLeaves(String),
    /// The ceiling of a class is less than its rate.
    #[error("class {name}: a ceiling of {ceiling} is less than its rate of {rate}")]
    Ceiling {
        /// Name of the class.
        name: String,
        /// Guaranteed rate of the class.
        rate: Rate,
        /// Ceiling of the class's rate.
        ceiling: Rate,
    },
    /// The rate or the ceiling of a class is below the least possible ([`LEAST_RATE`]).
    #[error("class {0}: the least rate is {LEAST_RATE}")]
    Slow(String),
    /// The rates of the children exceed the rate of the parent, or its ceiling if it has no rate,
    /// or the rate of the line if it has neither or is the line.
    #[error("child rates of {within} sum to {promised}, exceeding its {available}: lower their rates")]
    Sum {
        /// Name of the parent class, or the line.
        within: String,
        /// Sum of the children's rates.
        promised: Rate,
        /// Rate or ceiling of the parent, or rate of the line.
        available: Rate,
    },
    /// The default class is not a leaf.
    #[error("the default class {0:?} is no class without classes of its own")]
    Default(String),
}

/// Name of the default class, where none is given: it gets what others leave.
const REST: &str = "rest";
/// Least rate of a class: that of the slowest one in the PSPacer paper (Takano et al., 2006).
pub const LEAST_RATE: Rate = Rate::from_bits_per_second(8_000);

/// A valid tree of classes, on a line of some rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    pub(super) line: Rate,
    pub(super) classes: Vec<Placed>,
    pub(super) default: usize,
}

impl Tree {
    /// A tree of `classes`. `default` is the class of frames that no filter matches; without one, a
    /// class `rest` gets what others leave.
    ///
    /// # Errors
    /// See [`TreeError`].
    pub fn new(line: Rate, classes: &[ClassSettings], default: Option<&str>) -> Result<Self, TreeError> {
        let mut all = classes.to_vec();
        if default.is_none() {
            all.push(ClassSettings { name: REST.to_owned(), ..ClassSettings::default() });
        }
        let mut placed: Vec<Placed> = Vec::new();
        for settings in all {
            placed.push(place(settings, &placed)?);
            if let Some(parent) = placed.last().and_then(|class| class.parent) {
                placed[parent].is_leaf = false;
            }
        }
        for class in &placed {
            check(class)?;
        }
        let sum = |parent: Option<usize>| -> Rate {
            placed.iter().filter(|class| class.parent == parent).filter_map(|class| class.settings.rate).sum()
        };
        let within = |within: &str, available: Rate, promised: Rate| match promised > available {
            true => Err(TreeError::Sum { within: within.to_owned(), promised, available }),
            false => Ok(()),
        };
        within("the line", line, sum(None))?;
        for (index, class) in placed.iter().enumerate().filter(|(_, class)| !class.is_leaf) {
            let ClassSettings { name, rate, ceiling, .. } = &class.settings;
            within(name, rate.or(*ceiling).unwrap_or(line), sum(Some(index)))?;
        }
        let name = default.unwrap_or(REST);
        let default = placed.iter().position(|class| class.settings.name == name && class.is_leaf);
        let default = default.ok_or_else(|| TreeError::Default(name.to_owned()))?;
        Ok(Self { line, classes: placed, default })
    }

    /// Rate of the line that the classes share.
    #[must_use]
    pub fn line(&self) -> Rate {
        self.line
    }

    /// For each class the number of its parent; `None` for a class at the top.
    pub fn parents(&self) -> impl Iterator<Item = Option<usize>> {
        self.classes.iter().map(|class| class.parent)
    }

    /// Index of the class of a frame with these headers; `None` is a frame without IP.
    #[must_use]
    pub fn class_of(&self, headers: Option<&Headers>) -> usize {
        let fitting = headers.and_then(|headers| {
            self.classes.iter().position(|class| class.settings.filters.iter().any(|filter| filter.fits(headers)))
        });
        fitting.unwrap_or(self.default)
    }

    /// Pairs of classes that could both have a frame, of which the first gets it.
    #[must_use]
    pub fn overlaps(&self) -> Vec<(&str, &str)> {
        let mut found = Vec::new();
        for (index, first) in self.classes.iter().enumerate() {
            for second in &self.classes[index + 1..] {
                let mut pairs =
                    first.settings.filters.iter().flat_map(|a| second.settings.filters.iter().map(move |b| (a, b)));
                if pairs.any(|(a, b)| a.overlaps(b)) {
                    found.push((first.settings.name.as_str(), second.settings.name.as_str()));
                }
            }
        }
        found
    }
}

/// Gives a class the index of its parent among the classes `before` it; it is a leaf until one
/// names it as its parent. Fails for a name that is empty or taken, and for an unknown parent.
fn place(settings: ClassSettings, before: &[Placed]) -> Result<Placed, TreeError> {
    let find = |name: &str| before.iter().position(|class| class.settings.name == name);
    if settings.name.is_empty() || find(&settings.name).is_some() {
        return Err(TreeError::Name(settings.name));
    }
    let parent = match &settings.parent {
        None => None,
        Some(parent) => Some(
            find(parent).ok_or_else(|| TreeError::Parent { name: settings.name.clone(), parent: parent.clone() })?,
        ),
    };
    Ok(Placed { settings, parent, is_leaf: true })
}

/// Checks that the rates of a class are at least [`LEAST_RATE`], that its ceiling is not below its
/// rate, and that only a leaf has filters.
fn check(class: &Placed) -> Result<(), TreeError> {
    let ClassSettings { name, rate, ceiling, filters, .. } = &class.settings;
    if [rate, ceiling].into_iter().flatten().any(|rate| *rate < LEAST_RATE) {
        return Err(TreeError::Slow(name.clone()));
    }
    match (*rate, *ceiling) {
        (Some(rate), Some(ceiling)) if ceiling < rate => Err(TreeError::Ceiling { name: name.clone(), rate, ceiling }),
        _ if !class.is_leaf && !filters.is_empty() => Err(TreeError::FiltersAboveLeaves(name.clone())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, parent: Option<&str>, rate: Option<&str>) -> ClassSettings {
        let rate = rate.map(|rate| rate.parse().unwrap());
        ClassSettings { name: name.to_owned(), parent: parent.map(str::to_owned), rate, ..ClassSettings::default() }
    }

    fn tree(classes: &[ClassSettings], default: Option<&str>) -> Result<Tree, TreeError> {
        Tree::new("1gbit".parse().unwrap(), classes, default)
    }

    #[test]
    fn trees_that_promise_too_much_or_nothing_are_refused() {
        let all = class("all", None, Some("600mbit"));
        let within = |rate| class("a", Some("all"), Some(rate));
        assert!(tree(&[all.clone(), within("600mbit")], None).is_ok());
        let said = |classes: &[ClassSettings], default| tree(classes, default).unwrap_err().to_string();
        assert!(said(&[all.clone(), within("601mbit")], None).contains("child rates of all"));
        assert!(said(&[all.clone(), class("b", None, Some("500mbit"))], None).contains("the line"));
        assert!(said(&[within("1mbit")], None).contains("no class before it"));
        assert!(said(&[all.clone(), all.clone()], None).contains("a name of its own"));
        assert!(said(&[class("", None, None)], None).contains("a name of its own"));
        assert!(said(&[class("slow", None, Some("7kbit"))], None).contains("8 kbit"));
        assert!(said(&[all.clone(), within("1mbit")], Some("all")).contains("default"));
        let low = ClassSettings { ceiling: Some("1mbit".parse().unwrap()), ..all.clone() };
        assert!(said(&[low], None).contains("less than its rate"));
        let sorted = ClassSettings { filters: vec![Filter::default()], ..all };
        assert!(said(&[sorted, within("1mbit")], None).contains("belong to them"));
    }

    #[test]
    fn the_first_filter_that_fits_decides_and_overlaps_are_told() {
        let to = |text: &str| vec![Filter { to: Some(text.parse().unwrap()), ..Filter::default() }];
        let narrow = ClassSettings { filters: to("192.0.2.0/25"), ..class("narrow", None, None) };
        let wide = ClassSettings { filters: to("192.0.2.0/24"), ..class("wide", None, None) };
        let other = ClassSettings { filters: to("::/0"), ..class("other", None, None) };
        let tree = tree(&[narrow, wide, other], None).unwrap();
        let class_of = |last: u8| {
            let frame = super::super::headers::tests::v4([192, 0, 2, last], 6, (1, 2), 0);
            tree.class_of(Headers::of(&frame).as_ref())
        };
        assert_eq!((class_of(1), class_of(200), tree.class_of(None)), (0, 1, 3));
        assert_eq!(tree.overlaps(), [("narrow", "wide")]);
    }
}
