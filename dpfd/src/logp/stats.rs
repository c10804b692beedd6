//! Means that a disturbed sample does not move, how sure they are, and straight lines.

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
        let mut sorted = batches.to_vec();
        sorted.sort_by(f64::total_cmp);
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

/// The middle one, the upper of two. Of nothing, NaN.
pub fn median(of: &[f64]) -> f64 {
    let mut of = of.to_vec();
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
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

/// An interval is never taken to be narrower than this part of its value: one lucky point would outweigh all others.
const SUREST: f64 = 0.001;

/// The line through these points, each weighted by how sure it is. `None` if they are all at one place.
pub fn line(points: &[At]) -> Option<Line> {
    let weigh = |at: &At| 1.0 / at.half.min(1e3 * at.y.abs()).max(SUREST * at.y.abs()).max(1e-9).powi(2);
    let sum = |f: &dyn Fn(&At) -> f64| points.iter().map(|at| weigh(at) * f(at)).sum::<f64>();
    let all = sum(&|_| 1.0);
    let (x, y) = (sum(&|at| at.x) / all, sum(&|at| at.y) / all);
    let spread = sum(&|at| (at.x - x).powi(2));
    if points.len() < 2 || spread <= 0.0 {
        return None;
    }
    let slope = sum(&|at| (at.x - x) * (at.y - y)) / spread;
    Some(Line { slope, start: y - slope * x, slope_half: spread.recip().sqrt() })
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
