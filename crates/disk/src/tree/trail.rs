//! Path by which a directory was reached: for messages, and for following links from the root of a
//! tree.

use std::sync::Arc;

use super::names::Name;

/// Path of a directory that shares its front with its siblings and holds no descriptors, so that
/// depth costs neither memory nor open files.
#[derive(Debug)]
pub(super) enum Trail {
    /// The path at which the trail starts.
    Start(Vec<u8>),
    /// The directory with this name in another one.
    Child(Arc<Self>, Name),
    /// The directory to which the symbolic link with this name in another one leads.
    Linked(Arc<Self>, Name),
}

/// A step down from a directory to the next one on a path.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a> {
    /// To the directory with this name.
    Into(&'a Name),
    /// To the directory to which the symbolic link with this name leads.
    Along(&'a Name),
}

impl<'a> Step<'a> {
    /// Name of the directory, or of the link.
    pub(super) fn name(self) -> &'a Name {
        match self {
            Self::Into(name) | Self::Along(name) => name,
        }
    }
}

impl Trail {
    pub(super) fn start(path: &[u8]) -> Arc<Self> {
        Arc::new(Self::Start(path.to_vec()))
    }

    pub(super) fn child(parent: &Arc<Self>, name: &Name) -> Arc<Self> {
        Arc::new(Self::Child(Arc::clone(parent), name.clone()))
    }

    pub(super) fn linked(parent: &Arc<Self>, name: &Name) -> Arc<Self> {
        Arc::new(Self::Linked(Arc::clone(parent), name.clone()))
    }

    /// Bytes of the whole path.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut names = Vec::new();
        let mut here = self;
        let mut path = loop {
            match here {
                Self::Start(start) => break start.clone(),
                Self::Child(parent, name) | Self::Linked(parent, name) => {
                    names.push(name);
                    here = parent;
                }
            }
        };
        for name in names.into_iter().rev() {
            append(&mut path, name);
        }
        path
    }

    /// Steps from `above` down to here; `None` if this is not beneath it.
    pub(super) fn steps_below(self: &Arc<Self>, above: &Arc<Self>) -> Option<Vec<Step<'_>>> {
        let mut steps = Vec::new();
        let mut here = self;
        while !Arc::ptr_eq(here, above) {
            here = match &**here {
                Self::Start(_) => return None,
                Self::Child(parent, name) => {
                    steps.push(Step::Into(name));
                    parent
                }
                Self::Linked(parent, name) => {
                    steps.push(Step::Along(name));
                    parent
                }
            };
        }
        steps.reverse();
        Some(steps)
    }

    /// Bytes of the whole path of `name` in this directory.
    pub(super) fn bytes_of(&self, name: &Name) -> Vec<u8> {
        let mut path = self.bytes();
        append(&mut path, name);
        path
    }
}

/// Appends a name to a path, after a slash where one is needed.
fn append(path: &mut Vec<u8>, name: &Name) {
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name.as_bytes());
}
