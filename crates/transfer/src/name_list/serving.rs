//! Answers to a sender that asks for the names of a list, part by part.

use std::io;

use icdc_protocol::limits::{MAX_NAME_BYTES_IN_PART, MAX_NAMES_IN_PART, MAX_PATH};
use icdc_protocol::listed::ListedNames;

use super::{NameList, Names};

const _: () = assert!(MAX_PATH < MAX_NAME_BYTES_IN_PART);

/// List of names that this end gives, part by part, to a sender that asks for them; it remembers
/// how far the sender has come.
#[derive(Debug)]
pub struct ListServer {
    list: NameList,
    /// The pass through the list that was asked for last, and what is left of it.
    pass: Option<(u32, Names)>,
    /// A name that did not fit in the last answer.
    kept: Option<Vec<u8>>,
}

impl ListServer {
    /// A list that nothing was asked of.
    #[must_use]
    pub fn new(list: NameList) -> Self {
        Self { list, pass: None, kept: None }
    }

    /// Next names of pass number `pass` through the list; a pass other than the last one begins
    /// with the first name.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn answer(&mut self, pass: u32) -> io::Result<ListedNames> {
        let names = match &mut self.pass {
            Some((present, names)) if *present == pass => names,
            _ => {
                self.kept = None;
                &mut self.pass.insert((pass, self.list.names())).1
            }
        };
        let (mut part, mut bytes) = (Vec::new(), 0);
        loop {
            let next = match self.kept.take() {
                Some(name) => Some(name),
                None => names.next()?,
            };
            let Some(name) = next else { return Ok(ListedNames { pass, names: part, ended: true }) };
            bytes += name.len();
            if part.len() == MAX_NAMES_IN_PART || bytes > MAX_NAME_BYTES_IN_PART {
                self.kept = Some(name);
                return Ok(ListedNames { pass, names: part, ended: false });
            }
            part.push(name);
        }
    }
}
