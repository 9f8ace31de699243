//! Parameters of an object: its read-only variables, located by the type information.

use std::collections::BTreeMap;

use libbpf_rs::btf::types::{DataSec, Int, IntEncoding, Var};
use libbpf_rs::btf::{Btf, BtfKind, ReferencesType};

/// Position, size and sign of a variable in the read-only section of an eBPF object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variable {
    offset: usize,
    size: usize,
    signed: bool,
}

/// Read-only variables of an eBPF object by name.
pub(super) type Variables = BTreeMap<String, Variable>;

/// Finds the read-only variables of an object file by its type information; an error is a sentence.
pub(super) fn variables_of_object(object: &[u8]) -> Result<Variables, String> {
    match Btf::from_raw("icdc", object) {
        Ok(Some(types)) => Ok(variables(&types)),
        Ok(None) => Err("the object has no type information".to_owned()),
        Err(error) => Err(super::text(&error)),
    }
}

/// Finds the read-only variables of an eBPF program in the kernel by its type information; `None`
/// if that cannot be read.
pub(super) fn variables_of_program(id: u32) -> Option<Variables> {
    Btf::from_prog_id(id).ok().map(|types| variables(&types))
}

/// Read-only integer variables that the type information describes; empty if there is no such
/// section.
fn variables(types: &Btf<'_>) -> Variables {
    let Some(section) = types.type_by_name::<DataSec<'_>>(".rodata") else { return Variables::new() };
    let mut found = Variables::new();
    for place in section.iter() {
        let Some(variable) = types.type_by_id::<Var<'_>>(place.ty) else { continue };
        let Some(name) = variable.name().and_then(|name| name.to_str()) else { continue };
        let kind = variable.referenced_type().skip_mods_and_typedefs();
        if kind.kind() != BtfKind::Int {
            continue;
        }
        let signed = Int::try_from(kind).is_ok_and(|int| matches!(int.encoding, IntEncoding::Signed));
        found.insert(name.to_owned(), Variable { offset: place.offset as usize, size: place.size, signed });
    }
    found
}

/// Writes `value` into the contents of the read-only section, `data`, where the variable `name`
/// lies; an error if there is none or the value does not fit.
pub(super) fn write(data: &mut [u8], variables: &Variables, name: &str, value: i64) -> Result<(), String> {
    let variable = variables.get(name).ok_or_else(|| format!("the object has no variable {name}"))?;
    let bytes = value.to_ne_bytes();
    let place = data.get_mut(variable.offset..variable.offset + variable.size);
    let (Some(place), true) = (place, fits(value, *variable)) else {
        return Err(format!("{value} does not fit into the variable {name} of {} bytes", variable.size));
    };
    // Little-endian numbers begin with what is kept of them, big-endian ones end with it.
    let from = if cfg!(target_endian = "little") { 0 } else { bytes.len() - variable.size };
    place.copy_from_slice(&bytes[from..from + variable.size]);
    Ok(())
}

/// Reads the variable `name` from the contents of the read-only section, `data`; `None` if there is
/// none.
pub(super) fn read(data: &[u8], variables: &Variables, name: &str) -> Option<i64> {
    let variable = variables.get(name)?;
    let kept = data.get(variable.offset..variable.offset + variable.size)?;
    match (kept, variable.signed) {
        (&[a], true) => Some(i8::from_ne_bytes([a]).into()),
        (&[a], false) => Some(a.into()),
        (&[a, b], true) => Some(i16::from_ne_bytes([a, b]).into()),
        (&[a, b], false) => Some(u16::from_ne_bytes([a, b]).into()),
        (&[a, b, c, d], true) => Some(i32::from_ne_bytes([a, b, c, d]).into()),
        (&[a, b, c, d], false) => Some(u32::from_ne_bytes([a, b, c, d]).into()),
        (kept, _) => Some(i64::from_ne_bytes(kept.try_into().ok()?)),
    }
}

/// Whether the variable can hold the value.
fn fits(value: i64, variable: Variable) -> bool {
    let bits = 8 * variable.size as u32;
    match (bits, variable.signed) {
        (64, true) => true,
        (64, false) => value >= 0,
        (8 | 16 | 32, true) => (-(1_i64 << (bits - 1))..1_i64 << (bits - 1)).contains(&value),
        (8 | 16 | 32, false) => (0..1_i64 << bits).contains(&value),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_every_size_are_kept_apart() {
        let mut variables = Variables::new();
        let mut offset = 0;
        for (name, size, signed) in [
            ("a", 1, true),
            ("b", 1, false),
            ("c", 2, true),
            ("d", 4, false),
            ("e", 4, true),
            ("f", 8, true),
            ("g", 8, false),
        ] {
            variables.insert(name.to_owned(), Variable { offset, size, signed });
            offset += size;
        }
        let mut data = vec![0xaa; offset];
        let values =
            [("a", -128), ("b", 255), ("c", -300), ("d", 4_294_967_295), ("e", -7), ("f", i64::MIN), ("g", i64::MAX)];
        for (name, value) in values {
            write(&mut data, &variables, name, value).unwrap();
        }
        for (name, value) in values {
            assert_eq!(read(&data, &variables, name), Some(value), "{name}");
        }
        for (name, value) in
            [("a", 128), ("b", -1), ("b", 256), ("c", 32768), ("d", -1), ("d", 1 << 32), ("g", -1), ("x", 0)]
        {
            write(&mut data, &variables, name, value).unwrap_err();
        }
        assert_eq!(read(&data, &variables, "x"), None);
        assert_eq!(read(&data[..3], &variables, "f"), None);
    }
}
