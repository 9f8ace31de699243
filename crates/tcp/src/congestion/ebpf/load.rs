//! Loading: from an eBPF object file to a registered algorithm.

use icdc_cc::{Algorithm, EbpfObject, Parameter};
use libbpf_rs::{ErrorKind, Link, MapCore, MapType, Object, ObjectBuilder, OpenObject};

use super::{holder, is_rodata, log_by_tracing, rodata, text};
use crate::congestion::error::LoadError;
use crate::congestion::names::is_available;
use crate::congestion::obstacle::{obstacle, release_is_at_least};
use crate::congestion::pin::{PinError, Pinned, path, prepare};

/// An algorithm that this process has loaded. It is unloaded when this is dropped; sockets that use
/// it keep it.
#[derive(Debug)]
pub struct Loaded {
    name: &'static str,
    // Dropped before the object: on kernels without links its descriptor is the object's.
    link: Link,
    registration: Registration,
    object: Object,
}

/// Way in which an algorithm stays registered in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registration {
    /// A BPF link: the registration ends with its last descriptor or pin.
    Link,
    /// The map itself, until the registration is taken back (kernels before 6.4).
    Map,
}

/// Loads `algorithm` with these values of its parameters, and the defaults for the others.
///
/// # Errors
/// See [`LoadError`].
pub fn load(algorithm: &'static Algorithm, settings: &[(&str, i64)]) -> Result<Loaded, LoadError> {
    load_object(registration(), algorithm, &algorithm.kernel_name(), settings, algorithm.object())
}

/// Best kind of registration that this kernel supports.
pub(super) fn registration() -> Registration {
    if release_is_at_least(6, 4) { Registration::Link } else { Registration::Map }
}

/// Loads one of the builds of `algorithm` from its object file `bytes` and registers it as
/// `kernel_name`.
pub(super) fn load_object(
    registration: Registration,
    algorithm: &'static Algorithm,
    kernel_name: &str,
    settings: &[(&str, i64)],
    bytes: Result<EbpfObject, &'static str>,
) -> Result<Loaded, LoadError> {
    let name = algorithm.name;
    let values = algorithm.values(settings)?;
    let taken = || LoadError::Taken { name, kernel_name: kernel_name.to_owned(), holder: holder(algorithm) };
    if is_available(kernel_name) {
        return Err(taken());
    }
    if let Some(obstacle) = obstacle(algorithm) {
        return Err(LoadError::Obstacle { name, obstacle });
    }
    let refused = |step| move |error: libbpf_rs::Error| LoadError::Refused { name, step, reason: text(&error) };
    log_by_tracing();
    let bytes = bytes.map_err(|reason| LoadError::Refused { name, step: "open", reason: reason.to_owned() })?;
    let mut open = ObjectBuilder::default()
        .name(name)
        .and_then(|builder| builder.open_memory(&bytes))
        .map_err(refused("the object cannot be read"))?;
    set(&mut open, &bytes, &algorithm.parameters(), &values).map_err(|reason| LoadError::Refused {
        name,
        step: "a parameter cannot be set",
        reason,
    })?;
    if registration == Registration::Link {
        ask_for_link(&mut open).map_err(refused("the object cannot be prepared"))?;
    }
    let mut object = open.load().map_err(refused("the kernel refuses it"))?;
    let algorithms = object.maps_mut().find(|map| map.map_type() == MapType::StructOps);
    let Some(mut map) = algorithms else {
        let reason = "it has no struct tcp_congestion_ops".to_owned();
        return Err(LoadError::Refused { name, step: "the object cannot be used", reason });
    };
    let link = map.attach_struct_ops().map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => taken(),
        _ => refused("it cannot be registered")(error),
    })?;
    Ok(Loaded { name, link, registration, object })
}

/// Sets the parameters in an object that is not loaded yet; an error is a sentence.
fn set(open: &mut OpenObject, bytes: &[u8], parameters: &[Parameter], values: &[i64]) -> Result<(), String> {
    if parameters.is_empty() {
        return Ok(());
    }
    let variables = rodata::variables_of_object(bytes)?;
    let mut maps = open.maps_mut();
    let mut map = maps.find(|map| is_rodata(map.name())).ok_or("it has no read-only variables")?;
    let data = map.initial_value_mut().ok_or("its read-only variables have no values")?;
    for (parameter, value) in parameters.iter().zip(values) {
        rodata::write(data, &variables, parameter.name, *value)?;
    }
    Ok(())
}

/// Makes an object that is not loaded yet register its algorithm by a BPF link.
fn ask_for_link(open: &mut OpenObject) -> libbpf_rs::Result<()> {
    for mut map in open.maps_mut().filter(|map| map.map_type() == MapType::StructOps) {
        map.set_map_flags(map.map_flags() | libbpf_sys::BPF_F_LINK)?;
    }
    Ok(())
}

impl Loaded {
    /// The loaded eBPF object, with its maps.
    pub(super) fn object(&self) -> &Object {
        &self.object
    }

    /// Pins the algorithm, so that it outlasts this process, until [`unload`](super::unload).
    ///
    /// # Errors
    /// See [`PinError`]; it is then unloaded.
    pub fn pin(mut self) -> Result<Pinned, PinError> {
        if self.registration == Registration::Map {
            self.link.disconnect();
            return Ok(Pinned { path: None, mounted: false });
        }
        let mounted = prepare()?;
        let path = path(self.name);
        self.link.pin(&path).map_err(|error| PinError::Call {
            path: path.clone(),
            call: "pin",
            reason: text(&error),
        })?;
        Ok(Pinned { path: Some(path), mounted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::names::registered;
    use crate::congestion::{Holder, UnloadError, find, unload};

    /// Behaviour of kernels before 6.4, on this one.
    #[test]
    fn without_links_it_goes_when_dropped_and_stays_when_pinned() {
        let lock = std::fs::File::create(std::env::temp_dir().join("icdc-test-algorithms.lock"));
        let algorithm = find("highspeed").unwrap();
        let Some(lock) = lock.ok().filter(|_| obstacle(algorithm).is_none()) else {
            eprintln!("SKIPPED: nothing can be loaded: {:?}", obstacle(algorithm));
            return;
        };
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let kernel_name = algorithm.kernel_name();
        let load_map = || load_object(Registration::Map, algorithm, &kernel_name, &[], algorithm.object()).unwrap();
        let loaded = load_map();
        assert_eq!(holder(algorithm), Holder::Nobody);
        drop(loaded);
        assert!(!registered(algorithm));

        let pinned = load_map().pin().unwrap();
        assert_eq!(pinned, Pinned { path: None, mounted: false });
        assert!(registered(algorithm), "it outlasts what loaded it");
        let taken = load(algorithm, &[]).unwrap_err();
        assert!(matches!(taken, LoadError::Taken { holder: Holder::Nobody, .. }), "{taken}");
        unload(algorithm).unwrap();
        assert!(!registered(algorithm));
        assert!(matches!(unload(algorithm), Err(UnloadError::NotLoaded { .. })));
    }
}
