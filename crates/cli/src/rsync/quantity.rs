//! Sizes and rates as rsync reads them (`parse_size_arg` in rsync's options.c): a number, which may
//! have decimals, and a suffix: `K` and `KiB` are 1024 bytes, `KB` 1000; `+1` or `-1` behind it.

/// Parses a size of rsync to bytes; `unit` is the suffix of a text that has none. `None` if it is
/// malformed.
pub(super) fn bytes(text: &str, unit: char) -> Option<u64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || fraction.len() > 12 {
        return None;
    }
    let (suffix, offset) = rest.find(['+', '-']).map_or((rest, ""), |sign| rest.split_at(sign));
    let mut suffix = suffix.chars();
    let power = match suffix.next().unwrap_or(unit).to_ascii_uppercase() {
        'B' => 0,
        'K' => 1,
        'M' => 2,
        'G' => 3,
        'T' => 4,
        'P' => 5,
        _ => return None,
    };
    let base: u128 = match suffix.as_str().to_ascii_lowercase().as_str() {
        "" | "ib" => 1024,
        "b" => 1000,
        _ => return None,
    };
    let scale = base.pow(power);
    let parse = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<u128>().ok() };
    let parts = parse(fraction)?.checked_mul(scale)? / 10u128.pow(fraction.len() as u32);
    let total = u64::try_from(parse(whole)?.checked_mul(scale)?.checked_add(parts)?).ok()?;
    match offset {
        "" => Some(total),
        "+1" => total.checked_add(1),
        "-1" => total.checked_sub(1),
        _ => None,
    }
}

/// Parses a rate of rsync to KiB per second, rounded as rsync does; 0 for no limit. `None` if it is
/// malformed, or too small for rsync.
pub(super) fn bandwidth(text: &str) -> Option<u64> {
    let bytes = bytes(text, 'K')?;
    (bytes == 0 || bytes >= 512).then(|| bytes.saturating_add(512) / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_rsync() {
        for (text, expected) in [
            ("100", 100),
            ("100b", 100),
            ("1k", 1024),
            ("1K", 1024),
            ("1KiB", 1024),
            ("1kb", 1000),
            ("1.5m", 1_572_864),
            ("1.5mb", 1_500_000),
            (".5k", 512),
            ("2G", 2 << 30),
            ("1t", 1 << 40),
            ("1m-1", (1 << 20) - 1),
            ("1mb+1", 1_000_001),
        ] {
            assert_eq!(bytes(text, 'b'), Some(expected), "{text}");
        }
        for text in ["", ".", "x", "1x", "1kx", "-1", "1m+2", "1.2.3k", "99999999p"] {
            assert_eq!(bytes(text, 'b'), None, "{text}");
        }
    }

    #[test]
    fn a_bandwidth_is_in_kib() {
        for (text, expected) in
            [("1", 1), ("100", 100), ("1m", 1024), ("1.5m", 1536), ("1000b", 1), ("0", 0), ("1mb", 977)]
        {
            assert_eq!(bandwidth(text), Some(expected), "{text}");
        }
        assert_eq!(bandwidth("100b"), None);
    }
}
