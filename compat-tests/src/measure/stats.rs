//! Medians, and how sure they are.

use serde::Serialize;

/// The median of some measurements and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

impl Spread {
    /// None of nothing.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let sorted = sorted(values);
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        Some(Spread { median: middle(&sorted), low, high })
    }
}

/// A median with the range in which the true one is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The median of what was measured.
    pub median: f64,
    /// Lower end of the range.
    pub low: f64,
    /// Upper end of the range.
    pub high: f64,
    /// How sure the range is, in percent. At least 95 if there are six values or more; with fewer the range is all
    /// of them, and as sure as that.
    pub percent: f64,
}

impl Interval {
    /// By order statistics, which assume nothing about how the values are distributed: the k-th lowest and the k-th
    /// highest enclose the true median unless fewer than k values fell on one side of it, each being a coin's toss.
    /// None of nothing.
    pub fn of(values: &[f64]) -> Option<Interval> {
        let sorted = sorted(values);
        let n = sorted.len();
        let spread = Spread::of(values)?;
        let mut interval =
            Interval { median: spread.median, low: spread.low, high: spread.high, percent: surety(n, 1) };
        for k in (2..=n.div_ceil(2)).take_while(|k| surety(n, *k) >= 95.0) {
            interval =
                Interval { low: sorted[k - 1], high: sorted[n - k], percent: surety(n, k), ..interval };
        }
        Some(interval)
    }
}

/// The median; 0 of nothing.
pub fn median(values: &[f64]) -> f64 {
    Spread::of(values).map_or(0.0, |spread| spread.median)
}

/// In percent, for n tosses of a coin: neither side comes up fewer than k times.
fn surety(n: usize, k: usize) -> f64 {
    let mut probability = 0.5f64.powi(n as i32);
    let mut fewer = 0.0;
    for i in 0..k {
        fewer += probability;
        probability *= (n - i) as f64 / (i + 1) as f64;
    }
    (100.0 * (1.0 - 2.0 * fewer)).max(0.0)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn middle(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    match n % 2 {
        1 => sorted[n / 2],
        _ => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests;
