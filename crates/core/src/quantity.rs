//! Quantities as people write them: CPUs (`500m`, `1.5`, `2`) and memory (`512Mi`, `2G`, `1073741824`).

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a quantity was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// Not a number with a known suffix.
    #[error("{0:?} is not a quantity; write {1}")]
    Malformed(String, &'static str),
    /// Zero or less.
    #[error("{0:?} must be more than zero")]
    NotPositive(String),
    /// Below what a container can live with.
    #[error("{0:?} is too small; at least {1}")]
    TooSmall(String, &'static str),
    /// Beyond any machine.
    #[error("{0:?} is too large; at most {1}")]
    TooLarge(String, &'static str),
}

const CPU_FORM: &str = "CPUs such as 2, 1.5 or 500m";
const MEM_FORM: &str = "bytes such as 512Mi, 2Gi or 1G";

/// CPU time in thousandths of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MilliCpu(pub u64);

/// Memory in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A decimal number in thousandths, without floating point.
fn thousandths(s: &str) -> Option<i128> {
    let (neg, s) = s.strip_prefix('-').map_or((false, s), |r| (true, r));
    let (whole, frac) = s.split_once('.').unwrap_or((s, ""));
    if (whole.is_empty() && frac.is_empty()) || frac.len() > 3 || whole.len() > 24 {
        return None;
    }
    if !whole
        .bytes()
        .chain(frac.bytes())
        .all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let whole: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let frac: i128 = format!("{frac:0<3}").parse().ok()?;
    let n = whole * 1000 + frac;
    Some(if neg { -n } else { n })
}

impl std::str::FromStr for MilliCpu {
    type Err = QuantityError;

    fn from_str(s: &str) -> Result<Self, QuantityError> {
        let bad = || QuantityError::Malformed(s.to_owned(), CPU_FORM);
        let milli = match s.strip_suffix('m') {
            Some(n) => thousandths(n).filter(|n| n % 1000 == 0).ok_or_else(bad)? / 1000,
            None => thousandths(s).ok_or_else(bad)?,
        };
        match milli {
            ..=0 => Err(QuantityError::NotPositive(s.to_owned())),
            1..=9 => Err(QuantityError::TooSmall(s.to_owned(), "10m")),
            10..=1_024_000 => Ok(Self(milli as u64)),
            _ => Err(QuantityError::TooLarge(s.to_owned(), "1024 CPUs")),
        }
    }
}

impl std::str::FromStr for Bytes {
    type Err = QuantityError;

    fn from_str(s: &str) -> Result<Self, QuantityError> {
        let bad = || QuantityError::Malformed(s.to_owned(), MEM_FORM);
        let split = s.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(s.len());
        let (number, suffix) = s.split_at(split);
        let unit: i128 = match suffix {
            "" | "B" => 1,
            "k" | "K" | "kB" | "KB" => 1000,
            "M" | "MB" => 1000_i128.pow(2),
            "G" | "GB" => 1000_i128.pow(3),
            "T" | "TB" => 1000_i128.pow(4),
            "Ki" | "KiB" => 1 << 10,
            "Mi" | "MiB" => 1 << 20,
            "Gi" | "GiB" => 1 << 30,
            "Ti" | "TiB" => 1 << 40,
            _ => return Err(bad()),
        };
        let bytes = thousandths(number)
            .ok_or_else(bad)?
            .checked_mul(unit)
            .ok_or_else(bad)?
            / 1000;
        match bytes {
            ..=0 => Err(QuantityError::NotPositive(s.to_owned())),
            1..=6_291_455 => Err(QuantityError::TooSmall(s.to_owned(), "6Mi")),
            6_291_456..=70_368_744_177_664 => Ok(Self(bytes as u64)),
            _ => Err(QuantityError::TooLarge(s.to_owned(), "64Ti")),
        }
    }
}

impl fmt::Display for MilliCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1000) {
            write!(f, "{}", self.0 / 1000)
        } else {
            write!(f, "{}m", self.0)
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")] {
            if self.0 >= 1 << shift && self.0.is_multiple_of(1 << shift) {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests;
