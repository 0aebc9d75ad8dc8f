//! A persistent list for frequent appends: old versions stay valid and share memory with new ones.

use std::fmt;
use std::sync::Arc;

use crate::deletes::work;

/// An immutable list stored as several arrays. Cloning shares them.
///
/// # Cost
/// Each array is longer than the next one, so `n` items take `O(log n)` arrays. An append copies
/// the references to the arrays, and copies each item `O(log n)` times over its life.
pub struct Pieces<T>(Arc<[Arc<[T]>]>);

impl<T> Pieces<T> {
    /// Number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|piece| piece.len()).sum()
    }

    /// Whether there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Items in the order in which they were added.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.0.iter().flat_map(|piece| piece.iter())
    }
}

impl<T: Clone> Pieces<T> {
    /// A list with `new` appended.
    #[must_use]
    pub fn with(&self, new: impl Into<Arc<[T]>>) -> Pieces<T> {
        let new: Arc<[T]> = new.into();
        let (mut kept, mut last) = (self.0.len(), new.len());
        if last == 0 {
            return self.clone();
        }
        // An array is merged into its successor unless it is longer: this keeps lengths descending.
        while kept > 0 && self.0[kept - 1].len() <= last {
            last += self.0[kept - 1].len();
            kept -= 1;
        }
        work::touch(kept + last);
        let joined = if kept == self.0.len() {
            new
        } else {
            self.0[kept..].iter().chain([&new]).flat_map(|piece| piece.iter()).cloned().collect()
        };
        let pieces = Pieces(self.0[..kept].iter().cloned().chain([joined]).collect());
        debug_assert!(pieces.0.is_sorted_by(|a, b| a.len() > b.len()), "BUG: lengths of pieces do not descend");
        debug_assert!(pieces.len() > self.len(), "BUG: {} items after {}", pieces.len(), self.len());
        pieces
    }
}

impl<T> Clone for Pieces<T> {
    fn clone(&self) -> Pieces<T> {
        Pieces(Arc::clone(&self.0))
    }
}

impl<T> Default for Pieces<T> {
    fn default() -> Pieces<T> {
        Pieces(Arc::new([]))
    }
}

impl<T: fmt::Debug> fmt::Debug for Pieces<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T> FromIterator<T> for Pieces<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Pieces<T> {
        let items: Arc<[T]> = items.into_iter().collect();
        if items.is_empty() { Pieces::default() } else { Pieces(Arc::new([items])) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_stay_in_order_and_old_versions_stay_valid() {
        let mut all: Vec<Pieces<usize>> = vec![Pieces::default()];
        for number in 0..300 {
            let count = [1, 1, 2, 7][number % 4];
            let last = &all[number];
            let from = last.len();
            all.push(last.with((from..from + count).collect::<Vec<_>>()));
        }
        for pieces in &all {
            assert!(pieces.iter().copied().eq(0..pieces.len()));
            assert!(pieces.0.len() <= 11, "{} pieces of {}", pieces.0.len(), pieces.len());
        }
    }
}
