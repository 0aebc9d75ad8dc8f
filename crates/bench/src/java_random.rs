//! `java.util.Random` as its documentation specifies it: a 48-bit linear congruential generator.
//!
//! Only `--compat` uses it, because IoT-benchmark does. Avoid it elsewhere: consecutive seeds give
//! nearly equal first draws. The tests hold golden values of a JDK.

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const MASK: u64 = (1 << 48) - 1;

/// The generator. Equal seeds give equal sequences on every machine.
#[derive(Clone, Debug)]
pub struct JavaRandom {
    state: u64,
}

impl JavaRandom {
    /// Equivalent of `new Random(seed)`.
    pub fn new(seed: i64) -> Self {
        JavaRandom { state: (seed as u64 ^ MULTIPLIER) & MASK }
    }

    /// Advances the state and returns its high `bits` bits (1 ..= 32), sign included.
    fn bits(&mut self, bits: u32) -> i32 {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        (self.state >> (48 - bits)) as i32
    }

    /// `nextInt()`: any `i32`.
    pub fn int(&mut self) -> i32 {
        self.bits(32)
    }

    /// `nextInt(bound)`: uniform in `0 .. bound`; `bound` must be positive.
    pub fn below(&mut self, bound: i32) -> i32 {
        assert!(bound > 0, "BUG: JavaRandom::below({bound})");
        if bound & -bound == bound {
            return ((i64::from(bound) * i64::from(self.bits(31))) >> 31) as i32;
        }
        loop {
            let bits = self.bits(31);
            let value = bits % bound;
            // Overflow means that `bits` lies in the last, incomplete block of `bound` values,
            // which would bias the result: draw again.
            if bits.checked_sub(value).and_then(|block| block.checked_add(bound - 1)).is_some() {
                return value;
            }
        }
    }

    /// `nextLong()`: two draws; not every `i64` can occur.
    pub fn long(&mut self) -> i64 {
        let high = i64::from(self.bits(32)) << 32;
        high.wrapping_add(i64::from(self.bits(32)))
    }

    /// `nextFloat()`: uniform in `[0, 1)`, 24 bits.
    pub fn float(&mut self) -> f32 {
        self.bits(24) as f32 / (1 << 24) as f32
    }

    /// `nextDouble()`: uniform in `[0, 1)`, 53 bits of two draws.
    pub fn double(&mut self) -> f64 {
        let high = i64::from(self.bits(26)) << 27;
        (high + i64::from(self.bits(27))) as f64 / (1_u64 << 53) as f64
    }

    /// `Collections.shuffle(items, random)`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (2..=items.len()).rev() {
            items.swap(end - 1, self.below(end as i32) as usize);
        }
    }
}

/// `String.hashCode()`: the 31-polynomial over the UTF-16 units of `text`.
pub fn string_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Golden {
        seed: i64,
        ints: [i32; 4],
        below_10: [i32; 8],
        below_16: [i32; 8],
        below_2_30_and_1: [i32; 4],
        double_bits: [u64; 3],
        float_bits: [u32; 3],
        longs: [i64; 3],
    }

    /// Printed by OpenJDK 17: each array is the start of a fresh `new Random(seed)`.
    const GOLDEN: &[Golden] = &[
        Golden {
            seed: 0,
            ints: [-1155484576, -723955400, 1033096058, -1690734402],
            below_10: [0, 8, 9, 7, 5, 3, 1, 1],
            below_16: [11, 13, 3, 9, 10, 4, 8, 1],
            below_2_30_and_1: [516548029, 663681053, 251269761, 715581077],
            double_bits: [0x3fe764168ea6ca89, 0x3fcec9e5b3672e14, 0x3fe465b93a78ef81],
            float_bits: [0x3f3b20b4, 0x3f54d951, 0x3e764f2c],
            longs: [-4962768465676381896, 4437113781045784766, -6688467811848818630],
        },
        Golden {
            seed: 42,
            ints: [-1170105035, 234785527, -1360544799, 205897768],
            below_10: [0, 3, 8, 4, 0, 5, 5, 8],
            below_16: [11, 0, 10, 0, 4, 15, 4, 11],
            below_2_30_and_1: [117392763, 102948884, 662969970, 595021505],
            double_bits: [0x3fe74833a06ff457, 0x3fe5dcf778622e01, 0x3fd3c20f3f12bbb4],
            float_bits: [0x3f3a419d, 0x3d5fe8a0, 0x3f2ee7bb],
            longs: [-5025562857975149833, -5843495416241995736, 5694868678511409995],
        },
        Golden {
            seed: 666,
            ints: [-1299380665, 1930546409, -1502634561, 926504427],
            below_10: [5, 4, 7, 3, 5, 7, 8, 6],
            below_16: [11, 7, 10, 3, 14, 4, 1, 12],
            below_2_30_and_1: [965273204, 463252213, 593073487, 264508618],
            double_bits: [0x3fe651a0cb988e67, 0x3fe4cdf3b1b9caaf, 0x3fedb786a2359954],
            float_bits: [0x3f328d06, 0x3ee62398, 0x3f266f9d],
            longs: [-5580797459299185431, -6453766296407812629, -1316118617012360546],
        },
        Golden {
            seed: 151658,
            ints: [1557611425, -1933605422, 1599864248, 426271071],
            below_10: [2, 7, 4, 5, 3, 2, 4, 8],
            below_16: [5, 8, 5, 1, 9, 8, 15, 0],
            below_2_30_and_1: [778805712, 799932124, 213135535, 29128248],
            double_bits: [0x3fd735d0e8cbf85c, 0x3fd7d6ff61968614, 0x3fe329b55c7c9b4a],
            float_bits: [0x3eb9ae86, 0x3f0cbf85, 0x3ebeb7fa],
            longs: [6689890128317351378, 6871364623625904479, -7400070726946690732],
        },
        Golden {
            seed: -1,
            ints: [1155099827, 1887904451, 52699159, -1941176418],
            below_10: [3, 5, 9, 9, 4, 8, 7, 8],
            below_16: [4, 7, 0, 8, 10, 9, 6, 6],
            below_2_30_and_1: [577549913, 943952225, 26349579, 894294477],
            double_bits: [0x3fd1365b2708722c, 0x3f8921011897ff00, 0x3fe52fcbccce6dda],
            float_bits: [0x3e89b2d8, 0x3ee10e44, 0x3c490800],
            longs: [4961115982468162243, 226341162490527646, -6233441030884181172],
        },
    ];

    #[test]
    fn sequences_are_those_of_a_jdk() {
        fn take<T, const N: usize>(seed: i64, draw: impl Fn(&mut JavaRandom) -> T) -> [T; N] {
            let mut random = JavaRandom::new(seed);
            std::array::from_fn(|_| draw(&mut random))
        }
        for golden in GOLDEN {
            let seed = golden.seed;
            assert_eq!(take(seed, JavaRandom::int), golden.ints, "seed {seed}: nextInt()");
            assert_eq!(take(seed, |r| r.below(10)), golden.below_10, "seed {seed}: nextInt(10)");
            assert_eq!(take(seed, |r| r.below(16)), golden.below_16, "seed {seed}: nextInt(16)");
            assert_eq!(take(seed, |r| r.below((1 << 30) + 1)), golden.below_2_30_and_1, "seed {seed}: nextInt(2^30+1)");
            assert_eq!(take(seed, |r| r.double().to_bits()), golden.double_bits, "seed {seed}: nextDouble()");
            assert_eq!(take(seed, |r| r.float().to_bits()), golden.float_bits, "seed {seed}: nextFloat()");
            assert_eq!(take(seed, JavaRandom::long), golden.longs, "seed {seed}: nextLong()");
        }
    }

    #[test]
    fn shuffle_is_that_of_a_jdk() {
        let mut items: Vec<i32> = (0..10).collect();
        JavaRandom::new(42).shuffle(&mut items);
        assert_eq!(items, [4, 6, 2, 1, 7, 9, 8, 5, 3, 0]);
    }

    #[test]
    fn string_hashes_are_those_of_a_jdk() {
        for (text, hash) in [("0", 48), ("7", 55), ("42", 1662), ("5999", 1635524), ("d_0", 99093), ("d_17", 3071969)] {
            assert_eq!(string_hash(text), hash, "{text:?}");
        }
    }
}
