//! Functions that are compiled twice: for every processor, and for those with AVX2 and BMI2 (x86-64 since 2013 or so),
//! whose vectors are wider, compare 64-bit integers, and whose shifts take any register.
//!
//! Only loops over whole blocks are worth it: the choice costs a few instructions. Both compute the same.

/// Whether the second compilation runs on this processor.
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

/// Runs `body` as on a processor that has nothing of all this.
#[cfg(test)]
pub(super) fn baseline_only<T>(body: impl FnOnce() -> T) -> T {
    BASELINE_ONLY.set(true);
    let result = body();
    BASELINE_ONLY.set(false);
    result
}

/// Defines functions, each compiled twice. What they call is compiled with them only if it is inlined.
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
                // SAFETY: the processor was asked for all that `avx2` is compiled for.
                return unsafe { avx2($($arg),*) };
            }
            body($($arg),*)
        }
    )*};
}

pub(super) use multiversion;
