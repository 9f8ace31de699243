//! Lists of processors, as the kernel writes them.

/// More processors than any kernel can have.
const MOST_PROCESSORS: usize = 1 << 16;

/// Numbers in the form of the kernel's lists: `0-3,8`. What is no number is left out.
pub(super) fn listed(text: &str) -> Vec<usize> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<usize>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse::<usize>().ok()?);
        Some(first..=last.min(MOST_PROCESSORS))
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(listed("0-3,8"), [0, 1, 2, 3, 8]);
        assert_eq!(listed("0"), [0]);
        assert_eq!(listed("nothing, 2-1, 5-"), Vec::<usize>::new());
        assert_eq!(listed("0-18446744073709551615").len(), MOST_PROCESSORS + 1);
    }
}
