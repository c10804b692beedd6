//! Showing where two transcripts part.

const CONTEXT: usize = 2;

/// The lines in which two texts differ, `-` for the expected and `+` for the other, with some lines around;
/// empty if they are the same.
pub fn difference(expected: &str, got: &str) -> String {
    if expected == got {
        return String::new();
    }
    let (old, new): (Vec<_>, Vec<_>) = (expected.lines().collect(), got.lines().collect());
    let same_start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let same_end =
        old[same_start..].iter().rev().zip(new[same_start..].iter().rev()).take_while(|(a, b)| a == b);
    let same_end = same_end.count();
    let mut shown = String::new();
    let mut show = |sign: char, lines: &[&str]| {
        for line in lines {
            shown += &format!("  {sign} {line}\n");
        }
    };
    show(' ', &old[same_start.saturating_sub(CONTEXT)..same_start]);
    show('-', &old[same_start..old.len() - same_end]);
    show('+', &new[same_start..new.len() - same_end]);
    let after = old.len() - same_end;
    show(' ', &old[after..old.len().min(after + CONTEXT)]);
    if shown.is_empty() {
        shown = "  they differ in line ends only\n".into();
    }
    shown
}
