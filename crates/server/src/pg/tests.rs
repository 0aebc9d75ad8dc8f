//! The listener over real sockets.
