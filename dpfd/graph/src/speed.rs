//! How quick the link of a route is, as people write it: bits in a second, in the units of tc(8).

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use thiserror::Error;

/// Speeds that a link can have, bits in a second. At the least of them a full frame takes 12 ms; at the greatest the shortest one takes
/// 1.7 ns, which a clock of nanoseconds still sees.
pub const SPEEDS: RangeInclusive<u64> = 1_000_000..=400_000_000_000;

/// Units, and what they stand for: powers of ten.
const UNITS: [(&str, u64); 4] = [("Gbit", 1_000_000_000), ("Mbit", 1_000_000), ("Kbit", 1000), ("bit", 1)];
/// Digits of a number at most, on each side of its point.
const DIGITS: usize = 12;

/// The speed of a link.
///
/// ```
/// use dp_graph::speed::Speed;
///
/// let speed: Speed = "2.5Gbit".parse()?;
/// assert_eq!(speed.bits(), 2_500_000_000);
/// assert_eq!((speed.to_string(), "100mbit".parse::<Speed>()?.bytes()), ("2500Mbit".into(), 12_500_000));
/// # Ok::<(), dp_graph::speed::BadSpeed>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Speed(u64);

impl Speed {
    /// So many bits in a second, if that is in [`SPEEDS`].
    pub fn of_bits(bits: u64) -> Option<Speed> {
        SPEEDS.contains(&bits).then_some(Speed(bits))
    }

    /// Bits in a second.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Bytes in a second.
    pub fn bytes(self) -> u64 {
        self.0 / 8
    }
}

/// What a text is that is no speed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadSpeed {
    /// It is written otherwise.
    #[error(
        "{0:?} is no speed of a link; write bits in a second, as in \"100Mbit\", \"2.5Gbit\" or \"10Gbit\""
    )]
    Form(String),
    /// No link is like that.
    #[error(
        "{0:?} is no speed that a link can have here; speeds go from {least} to {most}",
        least = Speed(*SPEEDS.start()),
        most = Speed(*SPEEDS.end())
    )]
    Range(String),
}

impl FromStr for Speed {
    type Err = BadSpeed;

    fn from_str(text: &str) -> Result<Speed, BadSpeed> {
        let form = || BadSpeed::Form(text.into());
        let end = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(form)?;
        let (number, unit) = text.split_at(end);
        let unit = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or_else(form)?.1;
        let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
        let value = |digits: &str| {
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            let value = digits.parse::<u128>().ok();
            value.filter(|_| plain && digits.len() <= DIGITS).ok_or_else(form)
        };
        let (whole, ten) = (value(whole)?, 10u128.pow(part.len().min(DIGITS) as u32));
        let bits = u128::from(unit) * (whole * ten + value(part)?) / ten;
        u64::try_from(bits).ok().and_then(Speed::of_bits).ok_or_else(|| BadSpeed::Range(text.into()))
    }
}

impl fmt::Display for Speed {
    /// In the greatest unit that it has a whole number of.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, unit) = UNITS.iter().find(|(_, unit)| self.0 % unit == 0).unwrap_or(&UNITS[3]);
        write!(f, "{}{name}", self.0 / unit)
    }
}

#[cfg(test)]
mod tests;
