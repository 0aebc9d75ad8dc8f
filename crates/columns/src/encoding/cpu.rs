//! Function multiversioning: functions compiled twice, for every x86-64 processor and for AVX2,
//! BMI1, BMI2 and LZCNT (processors since about 2013), which have wider vectors, 64-bit integer
//! comparisons and shifts by any register.
//!
//! Only worthwhile for loops over whole blocks: the dispatch costs a few instructions. Both
//! versions compute the same result.

/// Whether this processor supports the AVX2 version.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn has_avx2() -> bool {
    #[cfg(test)]
    if BASELINE_ONLY.get() {
        return false;
    }
    use std::arch::is_x86_feature_detected as has;
    has!("avx2") && has!("bmi1") && has!("bmi2") && has!("lzcnt")
}

#[cfg(test)]
thread_local! {
    static BASELINE_ONLY: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs `body` with the baseline versions.
#[cfg(test)]
pub(super) fn baseline_only<T>(body: impl FnOnce() -> T) -> T {
    BASELINE_ONLY.set(true);
    let result = body();
    BASELINE_ONLY.set(false);
    result
}

/// Defines functions with a baseline and an AVX2 version. Functions that they call are compiled for
/// AVX2 only if they are inlined.
macro_rules! multiversion {
    ($($(#[$meta:meta])* $vis:vis fn $name:ident $([$($generics:tt)*])? ($($arg:ident: $type:ty),* $(,)?)
        $(-> $result:ty)? $body:block)*) => {$(
        $(#[$meta])*
        $vis fn $name $(<$($generics)*>)? ($($arg: $type),*) $(-> $result)? {
            #[inline(always)]
            fn body $(<$($generics)*>)? ($($arg: $type),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
            fn avx2 $(<$($generics)*>)? ($($arg: $type),*) $(-> $result)? {
                body($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            if $crate::encoding::cpu::has_avx2() {
                // SAFETY: the processor supports all features that `avx2` is compiled for.
                return unsafe { avx2($($arg),*) };
            }
            body($($arg),*)
        }
    )*};
}

pub(super) use multiversion;
