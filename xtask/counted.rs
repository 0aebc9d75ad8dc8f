//! Support for `cargo xtask bench-instructions`, included by each kernel program.
//!
//! A program runs its kernels in order and prints a line for each. Callgrind counts only inside [`counted_kernel`]
//! and dumps a count at each return from it: the nth count belongs to the nth line.

use std::hint::black_box;

/// Selects kernels: those whose name contains the program's argument; all without an argument.
pub(crate) struct Kernels {
    wanted: String,
}

impl Kernels {
    /// Reads the arguments and prints the processor's features, on which counts depend. (Callgrind's are not the
    /// machine's.)
    pub(crate) fn from_arguments() -> Kernels {
        println!("cpu\t{}", processor());
        Kernels { wanted: std::env::args().nth(1).unwrap_or_default() }
    }

    /// Runs `work` twice and counts the second run, when memory is warm and lazily loaded code is loaded.
    ///
    /// - `values`: number of values processed by one run; the count is divided by it.
    pub(crate) fn run(&self, name: &str, values: usize, mut work: impl FnMut()) {
        if !name.contains(&self.wanted) {
            return;
        }
        work();
        counted_kernel(&mut work);
        println!("{name}\t{values}");
    }
}

/// Callgrind finds this function by name. The statement after the call prevents a tail call.
#[inline(never)]
fn counted_kernel(work: &mut dyn FnMut()) {
    black_box(work)();
    black_box(());
}

/// Processor features that our code checks for.
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
