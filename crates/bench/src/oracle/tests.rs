//! The oracle against answers made by brute force.
