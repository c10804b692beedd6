//! Medians, means that a disturbed sample does not move, how sure they are, and straight lines.

use serde::Serialize;

/// A mean with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean, ns.
    pub ns: f64,
    /// Half the width of the interval, ns; infinite while there are fewer than two batches.
    pub half: f64,
    /// Batches it stands on.
    pub batches: u32,
}

impl Estimate {
    /// Of the means of batches. Their scatter holds what no single batch shows: drift, and neighbours on the machine. The
    /// smallest and the largest quarter are trimmed here as well, because a neighbour can be there for a whole batch; the
    /// interval is that of a trimmed mean (Tukey and McLaughlin), wider than if the others alone had been measured.
    pub fn of(batches: &[f64]) -> Estimate {
        let n = batches.len();
        let sorted = sorted(batches);
        let cut = n / 4;
        let kept = &sorted[cut..n - cut];
        let mean = kept.iter().sum::<f64>() / kept.len() as f64;
        if n < 2 {
            return Estimate { ns: mean, half: f64::INFINITY, batches: n as u32 };
        }
        // What was cut counts as the nearest that was not.
        let (low, high) = (kept[0], kept[kept.len() - 1]);
        let winsorized: Vec<f64> = sorted.iter().map(|b| b.clamp(low, high)).collect();
        let middle = winsorized.iter().sum::<f64>() / n as f64;
        let variance = winsorized.iter().map(|b| (b - middle).powi(2)).sum::<f64>() / (n - 1) as f64;
        let half = student(kept.len() - 1) * (variance * n as f64).sqrt() / kept.len() as f64;
        Estimate { ns: mean, half, batches: n as u32 }
    }

    /// Whether the interval lies within this part of the mean: 0.05 are 5 %.
    pub fn within(&self, part: f64) -> bool {
        self.half <= part * self.ns.abs()
    }
}

/// The mean of what is left of `samples` when the smallest and the largest tenth are taken away. Sorts them. Of
/// nothing, NaN.
pub fn trimmed_mean(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    let cut = samples.len() / 10;
    let kept = &samples[cut..samples.len() - cut];
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// The mean of the faster half, without the fastest twentieth: on a machine that others use as well, the slower half may be
/// theirs. Sorts them. Of nothing, NaN.
pub fn undisturbed(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    let kept = &samples[samples.len() / 20..samples.len().div_ceil(2)];
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// The middle one, or the mean of the two middle ones. Of nothing, NaN.
pub fn median(of: &[f64]) -> f64 {
    Spread::of(of).map_or(f64::NAN, |spread| spread.median)
}

/// What so many of 1000 do not exceed. Sorts them. Of nothing, NaN.
pub fn percentile(of: &mut [f32], thousandths: usize) -> f64 {
    of.sort_by(f32::total_cmp);
    of.get((of.len() * thousandths).div_ceil(1000).saturating_sub(1)).map_or(f64::NAN, |&x| f64::from(x))
}

/// Half of the distance between the quartiles. NaN of a single one, which says nothing of others, and of nothing.
pub fn quartile_half(of: &[f64]) -> f64 {
    let of = sorted(of);
    match of.len() {
        0 | 1 => f64::NAN,
        n => {
            let at = |part: f64| of[(part * (n - 1) as f64).round() as usize];
            (at(0.75) - at(0.25)) / 2.0
        }
    }
}

/// The mean of the middle half of these estimates. `None` of nothing.
pub fn middle(of: &[Estimate]) -> Option<Estimate> {
    let mut of = of.to_vec();
    of.sort_by(|a, b| a.ns.total_cmp(&b.ns));
    let cut = of.len() / 4;
    let kept = &of[cut..of.len() - cut];
    let n = kept.len() as f64;
    let squares: f64 = kept.iter().map(|e| e.half.powi(2)).sum();
    let batches = kept.iter().map(|e| e.batches).sum();
    (!kept.is_empty()).then(|| Estimate {
        ns: kept.iter().map(|e| e.ns).sum::<f64>() / n,
        half: squares.sqrt() / n,
        batches,
    })
}

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
        let (sorted, n) = (sorted(values), values.len());
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        Some(Spread { median: (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0, low, high })
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

/// One measured point of a line: where, what, and half the width of its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct At {
    /// Where.
    pub x: f64,
    /// What.
    pub y: f64,
    /// Half the width of its interval.
    pub half: f64,
}

/// A straight line, and how sure its slope is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// How much it rises for each step.
    pub slope: f64,
    /// Where it is at 0.
    pub start: f64,
    /// Half the width of the slope's 95 % interval.
    pub slope_half: f64,
}

/// No interval is taken to be narrower than this part of its value.
const SUREST: f64 = 0.001;
/// Nor than this when points are weighed against each other: states of the machine differ by more, and a point that was
/// measured in one of them alone would outweigh all others.
const SAME: f64 = 0.02;

/// The line through these points. Its slope is the middle one of all pairs' slopes (Theil and Sen), each pair weighted by
/// how sure it is: one point that was measured in another state of the machine, and surely, does not bend it. The interval
/// comes from those of the points, and is wider where they scatter more than these say. `None` if they are all at one
/// place.
pub fn line(points: &[At]) -> Option<Line> {
    let at_least = |part: f64, at: &At| at.half.min(1e3 * at.y.abs()).max(part * at.y.abs()).max(1e-9);
    let sure = |at: &At| at_least(SUREST, at);
    let mut slopes: Vec<(f64, f64)> = Vec::new();
    for (i, a) in points.iter().enumerate() {
        for b in points[..i].iter().filter(|b| b.x != a.x) {
            let weight = (a.x - b.x).powi(2) / (at_least(SAME, a).powi(2) + at_least(SAME, b).powi(2));
            slopes.push(((a.y - b.y) / (a.x - b.x), weight));
        }
    }
    let slope = weighted_median(&mut slopes)?;
    let starts: Vec<f64> = points.iter().map(|at| at.y - slope * at.x).collect();
    let start = median(&starts);
    let weigh = |at: &At| sure(at).powi(-2);
    let all: f64 = points.iter().map(weigh).sum();
    let mean = points.iter().map(|at| weigh(at) * at.x).sum::<f64>() / all;
    let spread: f64 = points.iter().map(|at| weigh(at) * (at.x - mean).powi(2)).sum();
    // Half of all points lie within 0.34 of their half widths, if these are true.
    let misses: Vec<f64> = points.iter().map(|at| (at.y - start - slope * at.x).abs() / sure(at)).collect();
    let scatter = (median(&misses) / 0.344).max(1.0);
    Some(Line { slope, start, slope_half: scatter / spread.sqrt() })
}

/// The value below and above which is half of the weight. `None` of nothing.
pub fn weighted_median(of: &mut [(f64, f64)]) -> Option<f64> {
    of.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: f64 = of.iter().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    of.iter().find_map(|&(value, weight)| {
        below += weight;
        (2.0 * below >= all).then_some(value)
    })
}

/// Student's t for a two-sided 95 % interval with so many degrees of freedom.
pub fn student(freedom: usize) -> f64 {
    const T: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    match freedom {
        0 => f64::INFINITY,
        n if n <= T.len() => T[n - 1],
        // The normal distribution's, and the first term by which t exceeds it.
        n => 1.960 + 2.4 / n as f64,
    }
}
