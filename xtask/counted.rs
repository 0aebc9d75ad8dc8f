//! The kernels' side of `cargo xtask bench-instructions`, a module of each program that it runs.
//!
//! A program runs its kernels one after the other and prints a line for each. Callgrind counts only what happens within
//! [`counted_kernel`] and writes down a count at each return from it: the nth count is the nth line's.

use std::hint::black_box;

/// Programs are given a part of a name and run the kernels whose names contain it; all without.
pub(crate) struct Kernels {
    wanted: String,
}

impl Kernels {
    /// By the program's arguments. Says first what the processor can do, on which counts depend. (Callgrind's is not the
    /// machine's.)
    pub(crate) fn from_arguments() -> Kernels {
        println!("cpu\t{}", processor());
        Kernels { wanted: std::env::args().nth(1).unwrap_or_default() }
    }

    /// Runs `work` twice and has the second time counted, when memory is warm and what is loaded at first use is loaded.
    ///
    /// - `values`: how many of what the count is to be divided by one run works on.
    pub(crate) fn run(&self, name: &str, values: usize, mut work: impl FnMut()) {
        if !name.contains(&self.wanted) {
            return;
        }
        work();
        counted_kernel(&mut work);
        println!("{name}\t{values}");
    }
}

/// What callgrind knows by its name. The statement after the call keeps that from becoming a jump.
#[inline(never)]
fn counted_kernel(work: &mut dyn FnMut()) {
    black_box(work)();
    black_box(());
}

/// Those features that our code asks for.
fn processor() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        let all =
            [("avx2", has!("avx2")), ("bmi2", has!("bmi2")), ("sse4.2", has!("sse4.2")), ("avx512f", has!("avx512f"))];
        let found: Vec<&str> = all.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
        format!("x86_64 {}", found.join(" "))
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::env::consts::ARCH.to_owned()
}
