//! Mean of ratios with its confidence interval.

use std::fmt;

/// Two-sided 95 % quantiles of Student's t for 1, 2, … degrees of freedom.
const T_95: [f64; 20] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086,
];

/// Geometric mean of ratios and its 95 % confidence interval.
pub(super) struct Ratio {
    mean: f64,
    interval: Option<(f64, f64)>,
}

impl Ratio {
    /// Student's t over logarithms, so that a ratio and its inverse are equally far from 1. No interval below 3
    /// values.
    pub(super) fn of(ratios: &[f64]) -> Ratio {
        let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        if logs.len() < 3 {
            return Ratio { mean: mean.exp(), interval: None };
        }
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let t = T_95.get(logs.len() - 2).copied().unwrap_or(1.96);
        let half = t * (variance / count).sqrt();
        Ratio { mean: mean.exp(), interval: Some(((mean - half).exp(), (mean + half).exp())) }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.interval {
            None => write!(f, "{:.3} (too few pairs for an interval)", self.mean),
            Some((low, high)) => {
                let verdict = if low > 1.0 || high < 1.0 { "differs" } else { "no difference shown" };
                write!(f, "{:.3}  [{low:.3}, {high:.3}]  {verdict}", self.mean)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_and_its_inverse_average_to_one_and_noise_shows_no_difference() {
        let noisy = Ratio::of(&[2.0, 0.5, 1.0]);
        assert!((noisy.mean - 1.0).abs() < 1e-12);
        assert!(noisy.to_string().ends_with("no difference shown"));
        let clear = Ratio::of(&[1.50, 1.52, 1.49, 1.51]);
        assert!(clear.interval.is_some_and(|(low, high)| low > 1.45 && high < 1.55));
        assert!(clear.to_string().ends_with("differs"));
    }
}
