//! What the caches of a core hold.

use std::fs;
use std::path::Path;

/// Where the kernel does not tell: what is common.
const USUAL: [usize; 3] = [32 << 10, 512 << 10, 8 << 20];

/// Bytes of the first and the second level, for data, and of the last one there is.
pub fn of(core: usize) -> [usize; 3] {
    caches(Path::new(&format!("/sys/devices/system/cpu/cpu{core}/cache")))
}

fn caches(folder: &Path) -> [usize; 3] {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for index in fs::read_dir(folder).into_iter().flatten().flatten() {
        let read = |name| fs::read_to_string(index.path().join(name)).ok();
        let kind = read("type").unwrap_or_default();
        if let (false, Some(level), Some(size)) = (
            kind.trim() == "Instruction",
            read("level").and_then(|level| level.trim().parse().ok()),
            read("size").and_then(|size| bytes(size.trim())),
        ) {
            found.push((level, size));
        }
    }
    found.sort_unstable();
    let at = |level| found.iter().find(|c| c.0 == level).map(|c| c.1);
    let [l1, l2] = [at(1).unwrap_or(USUAL[0]), at(2).unwrap_or(USUAL[1])];
    // Each holds more than the one before it, or the borders would not ascend.
    let last = found.last().map_or(USUAL[2], |c| c.1);
    let l2 = l2.max(2 * l1);
    [l1, l2, last.max(2 * l2)]
}

/// `512K`, `32M`.
fn bytes(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!([bytes("32K"), bytes("2M"), bytes("1G")], [Some(32 << 10), Some(2 << 20), Some(1 << 30)]);
        assert_eq!([bytes("64"), bytes("K"), bytes("3T"), bytes("")], [Some(64), None, None, None]);
    }

    #[test]
    fn the_last_level_is_the_one_with_the_highest_number() {
        let folder = std::env::temp_dir().join(format!("dp-caches-{}", std::process::id()));
        let write = |index: &str, level: &str, kind: &str, size: &str| {
            let at = folder.join(index);
            fs::create_dir_all(&at).unwrap();
            for (name, text) in [("level", level), ("type", kind), ("size", size)] {
                fs::write(at.join(name), format!("{text}\n")).unwrap();
            }
        };
        write("index0", "1", "Data", "48K");
        write("index1", "1", "Instruction", "64K");
        write("index2", "2", "Unified", "1024K");
        assert_eq!(caches(&folder), [48 << 10, 1 << 20, 2 << 20]);
        write("index3", "3", "Unified", "32768K");
        assert_eq!(caches(&folder), [48 << 10, 1 << 20, 32 << 20]);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(caches(&folder), USUAL);
    }
}
