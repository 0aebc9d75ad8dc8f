//! Encodings of texts, Unicode escapes and normal forms.

use model::{Datum, Error, Result, SqlState};
use unicode_normalization::UnicodeNormalization;

use super::arguments::{bytes, int4, invalid_parameter, length, text};
use crate::context::Context;
use crate::registry::{Family, Function};

pub(crate) static FAMILY: Family = Family { types: &[], functions: FUNCTIONS, sets: &[], aggregates: &[] };

const FUNCTIONS: &[(&str, Function)] = &[
    ("convert", |arguments, _, ctx| {
        let from = encoding(text(arguments, 1)?, "source encoding name")?;
        let to = encoding(text(arguments, 2)?, "destination encoding name")?;
        Ok(Datum::Bytes(converted(bytes(arguments, 0)?, from, to, ctx)?))
    }),
    ("convert_from", |arguments, _, ctx| {
        let from = encoding(text(arguments, 1)?, "source encoding name")?;
        let converted = converted(bytes(arguments, 0)?, from, Encoding::Utf8, ctx)?;
        utf8(converted).map(Datum::Text)
    }),
    ("convert_to", |arguments, _, ctx| {
        let to = encoding(text(arguments, 1)?, "destination encoding name")?;
        Ok(Datum::Bytes(converted(text(arguments, 0)?.as_bytes(), Encoding::Utf8, to, ctx)?))
    }),
    ("length(bytea,name)", |arguments, _, _| {
        let (of, encoding) = (bytes(arguments, 0)?, encoding(text(arguments, 1)?, "encoding name")?);
        verified(of, encoding)?;
        Ok(length(match encoding {
            Encoding::Utf8 => super::characters::count(utf8(of)?),
            Encoding::Latin1 | Encoding::SqlAscii => of.len(),
        }))
    }),
    ("getdatabaseencoding", |_, _, _| Ok(Datum::Text("UTF8"))),
    ("to_ascii(text)", |arguments, _, _| as_ascii(text(arguments, 0)?, "UTF8")),
    ("to_ascii(text,name)", |arguments, _, _| {
        let name = text(arguments, 1)?;
        let is_known = encoding(name, "").is_ok() || OTHERS.contains(&plain(name).as_str());
        if is_known {
            return as_ascii(text(arguments, 0)?, name);
        }
        Err(Error::new(SqlState::UNDEFINED_OBJECT, format!("{name} is not a valid encoding name")))
    }),
    ("to_ascii(text,int4)", |arguments, _, _| {
        let code = int4(arguments, 1)?;
        match code {
            0..=41 => {
                as_ascii(text(arguments, 0)?, NUMBERED.iter().find(|(at, _)| *at == code).map_or("UTF8", |one| one.1))
            }
            _ => Err(Error::new(SqlState::UNDEFINED_OBJECT, format!("{code} is not a valid encoding code"))),
        }
    }),
    ("unistr", |arguments, _, ctx| unescaped(text(arguments, 0)?, ctx)),
    ("normalize", |arguments, _, ctx| {
        let normalized = normalized(text(arguments, 0)?, text(arguments, 1)?)?;
        ctx.check_size(normalized.len())?;
        Ok(ctx.text(&normalized))
    }),
    ("is_normalized", |arguments, _, _| {
        let of = text(arguments, 0)?;
        Ok(Datum::Bool(normalized(of, text(arguments, 1)?)? == of))
    }),
];

/// The encodings that texts are converted from and to.
#[derive(Clone, Copy, PartialEq)]
enum Encoding {
    Utf8,
    Latin1,
    /// Bytes of an unknown encoding.
    SqlAscii,
}

impl Encoding {
    fn name(self) -> &'static str {
        match self {
            Encoding::Utf8 => "UTF8",
            Encoding::Latin1 => "LATIN1",
            Encoding::SqlAscii => "SQL_ASCII",
        }
    }
}

/// PostgreSQL's other encodings, as they are compared.
const OTHERS: &[&str] = &[
    "abc",
    "alt",
    "big5",
    "euccn",
    "eucjis2004",
    "eucjp",
    "euckr",
    "euctw",
    "gb18030",
    "gbk",
    "iso885910",
    "iso885913",
    "iso885914",
    "iso885915",
    "iso885916",
    "iso88592",
    "iso88593",
    "iso88594",
    "iso88595",
    "iso88596",
    "iso88597",
    "iso88598",
    "iso88599",
    "johab",
    "koi8",
    "koi8r",
    "koi8u",
    "latin10",
    "latin2",
    "latin3",
    "latin4",
    "latin5",
    "latin6",
    "latin7",
    "latin8",
    "latin9",
    "muleinternal",
    "shiftjis",
    "shiftjis2004",
    "sjis",
    "tcvn",
    "tcvn5712",
    "uhc",
    "vscii",
    "win",
    "win1250",
    "win1251",
    "win1252",
    "win1253",
    "win1254",
    "win1255",
    "win1256",
    "win1257",
    "win1258",
    "win866",
    "win874",
    "win932",
    "win936",
    "win949",
    "win950",
    "windows1250",
    "windows1251",
    "windows1252",
    "windows1253",
    "windows1254",
    "windows1255",
    "windows1256",
    "windows1257",
    "windows1258",
    "windows866",
    "windows874",
    "windows932",
    "windows936",
    "windows949",
    "windows950",
];

/// Numbers of the encodings that `to_ascii` knows.
const NUMBERED: [(i32, &str); 4] = [(8, "LATIN1"), (9, "LATIN2"), (16, "LATIN9"), (29, "WIN1250")];

/// The name of an encoding as it is compared: only letters and digits count.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|one| one.to_ascii_lowercase()).collect()
}

/// The text, if it is ASCII. PostgreSQL reads the bytes of other texts in the encoding, in which no text of ours is.
fn as_ascii<'a>(text: &'a str, encoding: &str) -> Result<Datum<'a>> {
    let name = plain(encoding);
    let is_known = ["latin1", "iso88591", "latin2", "iso88592", "latin9", "iso885915", "win1250", "windows1250"]
        .contains(&name.as_str());
    if is_known && text.is_ascii() {
        return Ok(Datum::Text(text));
    }
    Err(Error::unsupported(format!("encoding conversion from {encoding} to ASCII not supported")))
}

/// The encoding of a name.
fn encoding(name: &str, what: &str) -> Result<Encoding> {
    match plain(name).as_str() {
        "utf8" | "unicode" => Ok(Encoding::Utf8),
        "latin1" | "iso88591" => Ok(Encoding::Latin1),
        "sqlascii" => Ok(Encoding::SqlAscii),
        other if OTHERS.contains(&other) => Err(Error::unsupported(format!("encoding \"{name}\" is not supported"))),
        _ => Err(invalid_parameter(format!("invalid {what} \"{name}\""))),
    }
}

/// The bytes as UTF-8.
fn utf8(bytes: &[u8]) -> Result<&str> {
    let valid = std::str::from_utf8(bytes);
    let invalid_at = valid.err().map_or(bytes.len(), |error| error.valid_up_to());
    let zero_at = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    match valid {
        Ok(text) if zero_at == bytes.len() => Ok(text),
        _ => Err(invalid_bytes(&bytes[invalid_at.min(zero_at)..], Encoding::Utf8)),
    }
}

/// 22021, with the bytes of the character.
fn invalid_bytes(from: &[u8], encoding: Encoding) -> Error {
    let text =
        format!("invalid byte sequence for encoding \"{}\": {}", encoding.name(), first_character(from, encoding));
    Error::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, text)
}

/// The bytes of the first character: as many as its first byte announces.
fn first_character(from: &[u8], encoding: Encoding) -> String {
    let count = match (encoding, from.first()) {
        (Encoding::Utf8, Some(0xc0..=0xdf)) => 2,
        (Encoding::Utf8, Some(0xe0..=0xef)) => 3,
        (Encoding::Utf8, Some(0xf0..=0xf7)) => 4,
        _ => 1,
    };
    let shown: Vec<String> = from.iter().take(count).map(|byte| format!("0x{byte:02x}")).collect();
    shown.join(" ")
}

fn verified(bytes: &[u8], encoding: Encoding) -> Result<()> {
    match (encoding, memchr::memchr(0, bytes)) {
        (Encoding::Utf8, _) => utf8(bytes).map(|_| ()),
        (_, Some(zero)) => Err(invalid_bytes(&bytes[zero..], encoding)),
        (_, None) => Ok(()),
    }
}

fn converted<'a>(bytes: &'a [u8], from: Encoding, to: Encoding, ctx: &Context<'a>) -> Result<&'a [u8]> {
    verified(bytes, from)?;
    match (from, to) {
        (Encoding::Latin1, Encoding::Utf8) => {
            let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
            ctx.check_size(text.len())?;
            Ok(ctx.arena.alloc_str(&text).as_bytes())
        }
        (Encoding::Utf8, Encoding::Latin1) => {
            let mut out = bumpalo::collections::Vec::with_capacity_in(bytes.len(), ctx.arena);
            for one in utf8(bytes)?.chars() {
                out.push(u8::try_from(one).map_err(|_| no_equivalent(one, from, to))?);
            }
            Ok(out.into_bump_slice())
        }
        (Encoding::SqlAscii, to) => verified(bytes, to).map(|()| bytes),
        _ => Ok(bytes),
    }
}

fn no_equivalent(one: char, from: Encoding, to: Encoding) -> Error {
    let shown = first_character(one.encode_utf8(&mut [0; 4]).as_bytes(), from);
    let text = format!(
        "character with byte sequence {shown} in encoding \"{}\" has no equivalent in encoding \"{}\"",
        from.name(),
        to.name()
    );
    Error::new(SqlState("22P05"), text)
}

/// The text with its Unicode escapes replaced: `\XXXX`, `\+XXXXXX`, `\uXXXX`, `\UXXXXXXXX`, and `\\` for a backslash.
fn unescaped<'a>(text: &str, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let bad_pair = || Error::new(SqlState::SYNTAX_ERROR, "invalid Unicode surrogate pair");
    let mut out = String::new();
    let mut rest = text;
    // The first half of a surrogate pair.
    let mut high = None;
    while let Some(one) = rest.chars().next() {
        if one != '\\' || rest.starts_with("\\\\") {
            if high.is_some() {
                return Err(bad_pair());
            }
            out.push(one);
            rest = &rest[if one == '\\' { 2 } else { one.len_utf8() }..];
            continue;
        }
        let code;
        (code, rest) = escape(&rest[1..])?;
        match (high.take(), code) {
            (None, 0xd800..=0xdbff) => high = Some(code),
            (Some(high), 0xdc00..=0xdfff) => {
                let joined = 0x1_0000 + ((high & 0x3ff) << 10) + (code & 0x3ff);
                out.extend(char::from_u32(joined));
            }
            (Some(_), _) | (None, 0xdc00..=0xdfff) => return Err(bad_pair()),
            (None, code) => out.extend(char::from_u32(code)),
        }
    }
    if high.is_some() {
        return Err(bad_pair());
    }
    Ok(ctx.text(&out))
}

/// The code point of the escape behind a backslash, and the text after it.
fn escape(text: &str) -> Result<(u32, &str)> {
    let (skipped, count) = match text.as_bytes().first() {
        Some(b'u') => (1, 4),
        Some(b'U') => (1, 8),
        Some(b'+') => (1, 6),
        _ => (0, 4),
    };
    let digits = text.get(skipped..skipped + count).filter(|digits| digits.bytes().all(|one| one.is_ascii_hexdigit()));
    let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).ok_or_else(|| {
        Error::new(SqlState::SYNTAX_ERROR, "invalid Unicode escape")
            .with_hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
    })?;
    if code == 0 || code > 0x10_ffff {
        return Err(invalid_parameter(format!("invalid Unicode code point: {code:04X}")));
    }
    Ok((code, &text[skipped + count..]))
}

fn normalized(text: &str, form: &str) -> Result<String> {
    Ok(match form.to_ascii_uppercase().as_str() {
        "NFC" => text.nfc().collect(),
        "NFD" => text.nfd().collect(),
        "NFKC" => text.nfkc().collect(),
        "NFKD" => text.nfkd().collect(),
        _ => return Err(invalid_parameter(format!("invalid normalization form: {form}"))),
    })
}
