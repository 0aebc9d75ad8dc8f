//! Formatting of numbers and texts in reports.

/// Significant digits in reports.
const DIGITS: i32 = 3;

/// Escapes text for HTML elements and quoted attributes. Characters that HTML forbids are replaced.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(character),
            control if control.is_control() => escaped.push('\u{FFFD}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Formats with thousands separators: `1234567` as `1,234,567`.
pub(crate) fn whole(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats with three significant digits, without trailing zeros: `0.0123`, `1.5`, `42`, `1230`.
fn significant(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return if number == 0.0 { "0".to_owned() } else { "–".to_owned() };
    }
    let magnitude = number.abs().log10().floor() as i32;
    let decimals = (DIGITS - 1 - magnitude).clamp(0, 9) as usize;
    let text = format!("{number:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Formats with a metric prefix: `950`, `12.3 k`, `1.23 M`.
pub(crate) fn short(number: f64) -> String {
    let (scale, prefix) = match number.abs() {
        size if size >= 0.9995e12 => (1e12, " T"),
        size if size >= 0.9995e9 => (1e9, " G"),
        size if size >= 0.9995e6 => (1e6, " M"),
        size if size >= 0.9995e4 => (1e3, " k"),
        _ => (1.0, ""),
    };
    significant(number / scale) + prefix
}

/// Formats bytes with a binary prefix.
pub(crate) fn bytes(number: f64) -> String {
    const PREFIXES: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut scaled = number;
    let mut prefix = 0;
    while scaled.abs() >= 1023.5 && prefix + 1 < PREFIXES.len() {
        scaled /= 1024.0;
        prefix += 1;
    }
    format!("{} {}", significant(scaled), PREFIXES[prefix])
}

/// Formats a number of milliseconds in the most readable unit.
pub(crate) fn milliseconds(number: f64) -> String {
    match number.abs() {
        size if size >= 999.5 => format!("{} s", significant(number / 1e3)),
        size if size >= 0.9995 || size == 0.0 => format!("{} ms", significant(number)),
        _ => format!("{} µs", significant(number * 1e3)),
    }
}

/// Formats a number of seconds: `0.25 s`, `12.3 s`, `2 min 5 s`, `1 h 0 min`.
pub(crate) fn seconds(number: f64) -> String {
    let total = number.round() as u64;
    match number {
        long if long >= 3600.0 => format!("{} h {} min", total / 3600, total % 3600 / 60),
        long if long >= 120.0 => format!("{} min {} s", total / 60, total % 60),
        _ => format!("{} s", significant(number)),
    }
}

/// Formats with three significant digits and thousands separators.
pub(crate) fn digits(number: f64) -> String {
    match number {
        bad if !bad.is_finite() || bad < 0.0 => "–".to_owned(),
        large if large >= 99.95 => whole(large.round() as u64),
        middle if middle >= 9.995 => format!("{middle:.1}"),
        small => format!("{small:.2}"),
    }
}

/// Capitalises the first letter.
pub(crate) fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// Formats a ratio as a percentage: `98.7 %`, `412 %`.
pub(crate) fn percent(ratio: f64) -> String {
    format!("{} %", significant(ratio * 100.0))
}

/// Formats a ratio to a base: `2.40×`, `14.2×`, `266×`.
pub(crate) fn times(ratio: f64) -> String {
    match ratio {
        bad if !bad.is_finite() => "–".to_owned(),
        large if large >= 99.95 => format!("{}×", whole(large.round() as u64)),
        middle if middle >= 9.995 => format!("{middle:.1}×"),
        small => format!("{small:.2}×"),
    }
}

/// Quotes an argument for a shell, if necessary.
pub(crate) fn quoted(argument: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&byte);
    if !argument.is_empty() && argument.bytes().all(plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_html_has_no_markup() {
        assert_eq!(escape("<a b='c' d=\"e\">&\0\u{7}"), "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;\u{FFFD}\u{FFFD}");
        assert_eq!(escape("ordinary µs — text\n"), "ordinary µs — text\n");
    }

    #[test]
    fn numbers_have_three_digits_and_a_prefix() {
        let cases = [
            (0.0, "0"),
            (0.012_345, "0.0123"),
            (1.5, "1.5"),
            (999.6, "1000"),
            (1234.0, "1234"),
            (12_345.0, "12.3 k"),
            (999_949.0, "1 M"),
            (20_180_954.09, "20.2 M"),
            (-1.25e9, "-1.25 G"),
            (f64::NAN, "–"),
        ];
        for (number, text) in cases {
            assert_eq!(short(number), text, "{number}");
        }
    }

    #[test]
    fn units_are_readable() {
        assert_eq!([0.0, 1023.0, 1024.0, 1.5e9].map(bytes), ["0 B", "1023 B", "1 KiB", "1.4 GiB"]);
        assert_eq!(
            [0.0, 0.0421, 1.0, 41.237, 1234.5].map(milliseconds),
            ["0 ms", "42.1 µs", "1 ms", "41.2 ms", "1.23 s"]
        );
        assert_eq!([0.25, 61.04, 125.0, 3660.0].map(seconds), ["0.25 s", "61 s", "2 min 5 s", "1 h 1 min"]);
        assert_eq!([0.9871, 4.12, 1.0].map(percent), ["98.7 %", "412 %", "100 %"]);
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!([0, 999, 1000, 25_000_000_000].map(whole), ["0", "999", "1,000", "25,000,000,000"]);
    }

    #[test]
    fn arguments_survive_a_shell() {
        assert_eq!(["a=b", "", "it's; rm", "--target"].map(quoted), ["a=b", "''", "'it'\\''s; rm'", "--target"]);
    }
}
