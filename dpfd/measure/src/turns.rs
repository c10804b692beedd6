//! Whose turn it is, when several things are measured in rounds.

/// The order of `n` things in a round, counted from 0: every other round begins with the last, so that over two rounds all
/// have waited equally long, and a machine that grows slower is not taken for a slow thing.
pub fn order(n: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..n).map(move |i| if round % 2 == 0 { i } else { n - 1 - i })
}
