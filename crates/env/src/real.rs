//! Real side.
/// The operating system.
pub struct RealEnv;
