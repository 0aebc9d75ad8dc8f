//! Values with flags, in columns.

use crate::flag::Flag;

/// Values of one series, one for each of a sequence of times or intervals that the caller has.
///
/// A value may be absent. Absence and the flag are independent: an hour whose quarters are 10, 20, 30 and absent has the
/// sum 60 with the flag *Missing*.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Points {
    /// Values; 0 where absent.
    pub values: Vec<f64>,
    /// Whether there is a value.
    pub present: Vec<bool>,
    /// Flags.
    pub flags: Vec<Flag>,
}

impl Points {
    /// Points without values, flagged *Missing*.
    #[must_use]
    pub fn missing(len: usize) -> Points {
        Points { values: vec![0.0; len], present: vec![false; len], flags: vec![Flag::Missing; len] }
    }

    /// No points, with space for `len`.
    #[must_use]
    pub fn with_capacity(len: usize) -> Points {
        Points { values: Vec::with_capacity(len), present: Vec::with_capacity(len), flags: Vec::with_capacity(len) }
    }

    /// Makes space for `more` points.
    pub fn reserve(&mut self, more: usize) {
        self.values.reserve(more);
        self.present.reserve(more);
        self.flags.reserve(more);
    }

    /// Number of points.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether all columns have a length.
    #[must_use]
    pub fn has_len(&self, len: usize) -> bool {
        [self.values.len(), self.present.len(), self.flags.len()] == [len; 3]
    }

    /// Whether there are no points.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Appends a point.
    pub fn push(&mut self, value: Option<f64>, flag: Flag) {
        self.values.push(value.unwrap_or(0.0));
        self.present.push(value.is_some());
        self.flags.push(flag);
    }

    /// Moves all points of `other` to the end.
    pub fn append(&mut self, other: &mut Points) {
        self.values.append(&mut other.values);
        self.present.append(&mut other.present);
        self.flags.append(&mut other.flags);
    }

    /// Keeps the first points.
    pub fn truncate(&mut self, len: usize) {
        self.values.truncate(len);
        self.present.truncate(len);
        self.flags.truncate(len);
    }

    /// Value and flag of a point.
    #[must_use]
    pub fn get(&self, at: usize) -> (Option<f64>, Flag) {
        (self.present[at].then_some(self.values[at]), self.flags[at])
    }

    /// Replaces a point.
    pub fn set(&mut self, at: usize, value: Option<f64>, flag: Flag) {
        self.values[at] = value.unwrap_or(0.0);
        self.present[at] = value.is_some();
        self.flags[at] = flag;
    }

    /// All points.
    pub fn iter(&self) -> impl Iterator<Item = (Option<f64>, Flag)> + '_ {
        (0..self.len()).map(|at| self.get(at))
    }
}

impl FromIterator<(Option<f64>, Flag)> for Points {
    fn from_iter<T: IntoIterator<Item = (Option<f64>, Flag)>>(points: T) -> Points {
        let mut all = Points::default();
        for (value, flag) in points {
            all.push(value, flag);
        }
        all
    }
}
