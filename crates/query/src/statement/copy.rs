//! COPY as it is written: source, destination and options.

use model::{Error, Result, SqlState};
use parser::ast::{Copy, CopySource, DefinitionItem, Name, OptionValue, Query, Statement};
use relational::files::{Compression, Kind, Writing};

use super::option_values::{flag, placed, required};

/// A parsed COPY.
#[derive(Clone, Debug)]
pub(crate) struct CopyStatement {
    pub(crate) source: Source,
    pub(crate) from: bool,
    pub(crate) place: Place,
    pub(crate) options: Options,
}

#[derive(Clone, Debug)]
pub(crate) enum Source {
    Table(Name, Vec<String>),
    Query(Box<Query>),
}

/// The source of COPY FROM or the destination of COPY TO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Client,
    /// A path on the server.
    File(String),
}

/// The data formats: PostgreSQL's three, and the file formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    #[default]
    Text,
    Csv,
    Binary,
    Parquet,
    Arrow,
    /// Arrow IPC stream, which can be read incrementally.
    ArrowStream,
}

impl Format {
    fn named(name: &str) -> Option<Format> {
        Some(match name.to_ascii_lowercase().as_str() {
            "text" => Format::Text,
            "csv" => Format::Csv,
            "binary" => Format::Binary,
            "parquet" => Format::Parquet,
            "arrow" | "feather" => Format::Arrow,
            "arrow_stream" | "arrows" => Format::ArrowStream,
            _ => return None,
        })
    }

    /// The format of a file when FORMAT is not stated, from the extension of its name.
    fn of_path(path: &str) -> Format {
        match path.rsplit_once('.').map(|(_, end)| end) {
            Some("parquet") => Format::Parquet,
            Some("arrow" | "feather") => Format::Arrow,
            Some("arrows") => Format::ArrowStream,
            _ => Format::Text,
        }
    }

    /// The kind of file; `None` for PostgreSQL's row formats.
    pub(crate) fn kind(self) -> Option<Kind> {
        match self {
            Format::Text | Format::Csv | Format::Binary => None,
            Format::Parquet => Some(Kind::Parquet),
            Format::Arrow | Format::ArrowStream => Some(Kind::Arrow),
        }
    }
}

/// The framing of COPY data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyForm {
    /// Lines.
    Text,
    /// PostgreSQL's binary rows.
    Binary,
    /// A whole file, in chunks with arbitrary boundaries.
    File,
}

impl CopyForm {
    pub(crate) fn of(format: Format) -> CopyForm {
        match format {
            Format::Text | Format::Csv => CopyForm::Text,
            Format::Binary => CopyForm::Binary,
            Format::Parquet | Format::Arrow | Format::ArrowStream => CopyForm::File,
        }
    }
}

/// The header line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Header {
    #[default]
    None,
    /// The column names.
    Names,
    /// Column names, which must match the target columns.
    Match,
}

/// The options in WITH (…); `None` means the format's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) format: Format,
    pub(crate) header: Header,
    pub(crate) delimiter: Option<u8>,
    pub(crate) null: Option<String>,
    pub(crate) quote: Option<u8>,
    pub(crate) escape: Option<u8>,
    pub(crate) force_quote: Forced,
    pub(crate) force_not_null: Forced,
    pub(crate) force_null: Forced,
    pub(crate) compression: Option<Compression>,
    /// Rows per Parquet row group.
    pub(crate) row_group_size: Option<usize>,
    /// Whether FORMAT was stated.
    stated: bool,
}

/// The columns that an option such as FORCE_QUOTE names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Forced {
    #[default]
    None,
    All,
    Columns(Vec<String>),
}

impl Options {
    pub(crate) fn delimiter(&self) -> u8 {
        self.delimiter.unwrap_or(if self.format == Format::Csv { b',' } else { b'\t' })
    }

    pub(crate) fn null(&self) -> &str {
        self.null.as_deref().unwrap_or(if self.format == Format::Csv { "" } else { "\\N" })
    }

    pub(crate) fn quote(&self) -> u8 {
        self.quote.unwrap_or(b'"')
    }

    pub(crate) fn escape(&self) -> u8 {
        self.escape.unwrap_or(self.quote())
    }

    /// Refuses combinations of options that PostgreSQL refuses.
    fn check(&self, from: bool) -> Result<()> {
        let bad = |state: SqlState, text: &str| Err(Error::new(state, text.to_owned()));
        let csv_only = [
            ("QUOTE", self.quote.is_some()),
            ("ESCAPE", self.escape.is_some()),
            ("FORCE_QUOTE", self.force_quote != Forced::None),
            ("FORCE_NOT_NULL", self.force_not_null != Forced::None),
            ("FORCE_NULL", self.force_null != Forced::None),
        ];
        if self.format.kind().is_some() {
            return self.check_file(from);
        }
        if self.compression.is_some() || self.row_group_size.is_some() {
            let text = "COPY COMPRESSION and ROW_GROUP_SIZE are options of the formats parquet and arrow";
            return bad(SqlState::FEATURE_NOT_SUPPORTED, text);
        }
        if self.format == Format::Binary {
            if self.delimiter.is_some() {
                return bad(SqlState::SYNTAX_ERROR, "cannot specify DELIMITER in BINARY mode");
            }
            if self.null.is_some() {
                return bad(SqlState::SYNTAX_ERROR, "cannot specify NULL in BINARY mode");
            }
            if self.header != Header::None {
                return bad(SqlState::FEATURE_NOT_SUPPORTED, "cannot specify HEADER in BINARY mode");
            }
        }
        if let Some((name, _)) = csv_only.iter().find(|(_, given)| *given && self.format != Format::Csv) {
            return bad(SqlState::FEATURE_NOT_SUPPORTED, &format!("COPY {name} requires CSV mode"));
        }
        if matches!(self.delimiter(), b'\n' | b'\r') {
            return bad(SqlState::INVALID_PARAMETER_VALUE, "COPY delimiter cannot be newline or carriage return");
        }
        if self.null().contains(['\n', '\r']) {
            return bad(
                SqlState::INVALID_PARAMETER_VALUE,
                "COPY null representation cannot use newline or carriage return",
            );
        }
        let delimiter = self.delimiter();
        if self.format == Format::Text
            && (delimiter.is_ascii_lowercase() || delimiter.is_ascii_digit() || b"\\.".contains(&delimiter))
        {
            return bad(
                SqlState::INVALID_PARAMETER_VALUE,
                &format!("COPY delimiter cannot be \"{}\"", char::from(delimiter)),
            );
        }
        if self.format == Format::Csv && delimiter == self.quote() {
            return bad(SqlState::INVALID_PARAMETER_VALUE, "COPY delimiter and quote must be different");
        }
        if self.format != Format::Binary && self.null().as_bytes().contains(&delimiter) {
            return bad(
                SqlState::INVALID_PARAMETER_VALUE,
                "COPY delimiter character must not appear in the NULL specification",
            );
        }
        if from && self.force_quote != Forced::None {
            return bad(SqlState::FEATURE_NOT_SUPPORTED, "COPY FORCE_QUOTE cannot be used with COPY FROM");
        }
        if !from && self.header == Header::Match {
            return bad(SqlState::INVALID_PARAMETER_VALUE, "cannot use \"match\" with HEADER in COPY TO");
        }
        Ok(())
    }

    /// Refuses options that do not apply to Parquet and Arrow files.
    fn check_file(&self, from: bool) -> Result<()> {
        let bare = Options {
            format: self.format,
            stated: self.stated,
            compression: self.compression,
            row_group_size: self.row_group_size,
            ..Options::default()
        };
        let bad = |text: &str| Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, text.to_owned()));
        if *self != bare {
            return bad("COPY of parquet and arrow takes the options COMPRESSION and ROW_GROUP_SIZE only");
        }
        if from && (self.compression.is_some() || self.row_group_size.is_some()) {
            return bad("COPY COMPRESSION and ROW_GROUP_SIZE cannot be used with COPY FROM: the file says them");
        }
        let is_parquet = self.format == Format::Parquet;
        if !is_parquet && self.row_group_size.is_some() {
            return bad("COPY ROW_GROUP_SIZE requires the format parquet");
        }
        match self.compression {
            None | Some(Compression::None | Compression::Lz4) => Ok(()),
            Some(_) if is_parquet => Ok(()),
            Some(_) => bad("files of arrow are compressed by lz4, or not at all"),
        }
    }

    /// The settings of the file writer.
    pub(crate) fn writing(&self) -> Writing {
        match self.format {
            Format::Arrow | Format::ArrowStream => Writing::Arrow {
                compression: self.compression.unwrap_or(Compression::None),
                stream: self.format == Format::ArrowStream,
            },
            _ => Writing::Parquet {
                compression: self.compression.unwrap_or(Compression::Zstd),
                row_group_rows: self.row_group_size,
            },
        }
    }
}

impl CopyStatement {
    pub(crate) fn is_from(&self) -> bool {
        self.from
    }

    /// A COPY as the executor takes it.
    ///
    /// # Errors
    /// 0A000 for programs, and for WHERE; those of the options.
    pub(crate) fn of(copy: Copy) -> Result<CopyStatement> {
        let Copy { source, from, program, file, options: written, filter } = copy;
        if program {
            return Err(Error::unsupported("COPY reads from STDIN or a file, and writes to STDOUT or a file")
                .with_hint("programs run at the client: psql -c \"COPY … TO STDOUT\" | program"));
        }
        if filter.is_some() {
            return Err(Error::unsupported("COPY FROM … WHERE is not supported")
                .with_hint("COPY into another table, and INSERT from it"));
        }
        let source = match source {
            CopySource::Table(name, columns) => Source::Table(name, columns.iter().map(ToString::to_string).collect()),
            CopySource::Query(Statement::Query(query)) => Source::Query(query),
            CopySource::Query(_) => return Err(Error::unsupported("COPY (…) TO takes a query")),
        };
        let mut options = Options::default();
        for (at, option) in written.iter().enumerate() {
            if written[..at].iter().any(|before| before.name == option.name) {
                return Err(placed(option, Error::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options")));
            }
            options.set(option)?;
        }
        let place = file.map_or(Place::Client, |path| Place::File(path.to_string()));
        if let (Place::File(path), false) = (&place, options.stated) {
            options.format = Format::of_path(path);
        }
        options.check(from)?;
        Ok(CopyStatement { source, from, place, options })
    }
}

impl Options {
    fn set(&mut self, option: &DefinitionItem) -> Result<()> {
        match option.name.as_str() {
            "format" => {
                let format = required(option)?;
                let Some(named) = Format::named(&format) else {
                    let text = format!("COPY format \"{format}\" not recognized");
                    return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
                };
                (self.format, self.stated) = (named, true);
            }
            "compression" => {
                let name = required(option)?;
                self.compression = Some(Compression::named(&name).ok_or_else(|| {
                    let text = format!("COPY compression \"{name}\" not recognized");
                    Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
                        .with_hint("it is one of zstd, snappy, lz4, gzip and none")
                })?);
            }
            "row_group_size" => self.row_group_size = Some(rows(option)?),
            "header" => {
                let is_match = option.value.as_ref().is_some_and(|value| value.text().eq_ignore_ascii_case("match"));
                self.header = match is_match {
                    true => Header::Match,
                    false if flag(option)? => Header::Names,
                    false => Header::None,
                };
            }
            "delimiter" => self.delimiter = Some(character(option)?),
            "null" => self.null = Some(required(option)?),
            "quote" => self.quote = Some(character(option)?),
            "escape" => self.escape = Some(character(option)?),
            "encoding" => encoding(option)?,
            "freeze" => _ = flag(option)?,
            "force_quote" => self.force_quote = forced(option)?,
            "force_not_null" => self.force_not_null = forced(option)?,
            "force_null" => self.force_null = forced(option)?,
            "on_error" if required(option)?.eq_ignore_ascii_case("stop") => {}
            name => {
                let text = format!("option \"{name}\" not recognized");
                return Err(placed(option, Error::new(SqlState::SYNTAX_ERROR, text)));
            }
        }
        Ok(())
    }
}

/// A positive number of rows.
fn rows(option: &DefinitionItem) -> Result<usize> {
    let value = required(option)?;
    value.parse().ok().filter(|rows| *rows > 0).ok_or_else(|| {
        let text = format!("COPY row_group_size must be a number of rows, and not \"{value}\"");
        Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
    })
}

fn character(option: &DefinitionItem) -> Result<u8> {
    match required(option)?.as_bytes() {
        [byte] => Ok(*byte),
        _ => {
            let text = format!("COPY {} must be a single one-byte character", option.name);
            Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, text))
        }
    }
}

fn encoding(option: &DefinitionItem) -> Result<()> {
    let name = required(option)?;
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    if plain.eq_ignore_ascii_case("utf8") || plain.eq_ignore_ascii_case("unicode") {
        return Ok(());
    }
    Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("encoding \"{name}\" is not supported"))
        .with_hint("only UTF8 is"))
}

/// The columns of FORCE_QUOTE and its like.
fn forced(option: &DefinitionItem) -> Result<Forced> {
    match &option.value {
        Some(OptionValue::Star) => Ok(Forced::All),
        Some(OptionValue::List(names)) => Ok(Forced::Columns(names.iter().map(OptionValue::text).collect())),
        _ => {
            let text = format!("argument to option \"{}\" must be a list of column names", option.name);
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text))
        }
    }
}

/// Converts the options for `ingest`. `place`: position of a table column in the column list, if it is listed.
pub(crate) fn decoder_options(
    options: &Options,
    width: usize,
    place: impl Fn(&str) -> Result<Option<usize>>,
) -> Result<ingest::copy::Options> {
    let forced = |forced: &Forced| -> Result<Vec<usize>> {
        let place = |name: &String| {
            place(name)?.ok_or_else(|| {
                let text = format!("column \"{name}\" not referenced by COPY");
                Error::new(SqlState::INVALID_COLUMN_REFERENCE, text)
            })
        };
        match forced {
            Forced::None => Ok(Vec::new()),
            Forced::All => Ok((0..width).collect()),
            Forced::Columns(names) => names.iter().map(place).collect(),
        }
    };
    let mut found = match options.format {
        Format::Text => ingest::copy::Options::text(),
        Format::Csv => ingest::copy::Options::csv(),
        Format::Binary => return Ok(ingest::copy::Options::binary()),
        Format::Parquet | Format::Arrow | Format::ArrowStream => return Err(Error::bug("a file that is read as rows")),
    };
    found.delimiter = options.delimiter();
    found.null = options.null().to_owned();
    found.header = match options.header {
        Header::None => ingest::copy::Header::None,
        Header::Names => ingest::copy::Header::Skip,
        Header::Match => ingest::copy::Header::Match,
    };
    found.quote = options.quote();
    found.escape = options.escape();
    found.force_null = forced(&options.force_null)?;
    found.force_not_null = forced(&options.force_not_null)?;
    found.check()?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::{Command, parse as parse_text};

    fn options(sql: &str) -> Result<Options> {
        parse_text(sql).map(|parsed| match &parsed[0].0.command {
            Command::Copy(copy) => copy.options.clone(),
            _ => panic!("not a COPY"),
        })
    }

    #[test]
    fn old_and_new_spellings_mean_the_same() {
        let new = options("COPY t (a, \"B\") FROM STDIN WITH (FORMAT csv, HEADER, DELIMITER ';', NULL 'x')").unwrap();
        let old = options("copy public.t from stdin with csv header delimiter as ';' null 'x'").unwrap();
        assert_eq!(new, old);
        assert_eq!((new.delimiter(), new.null(), new.quote(), new.escape()), (b';', "x", b'"', b'"'));
        let tab = options("COPY t TO STDOUT (DELIMITER E'\\t', HEADER off)").unwrap();
        assert_eq!((tab.delimiter(), tab.header), (b'\t', Header::None));
        assert!(options("COPY (SELECT 1, (2)) TO STDOUT (FORMAT binary)").is_ok());
    }

    #[test]
    fn the_end_of_a_path_is_its_format_unless_that_is_stated() {
        for (sql, format) in [
            ("COPY t TO 'a/b.parquet'", Format::Parquet),
            ("COPY t FROM 'b.arrow'", Format::Arrow),
            ("COPY t FROM 'b.arrows'", Format::ArrowStream),
            ("COPY t FROM 'b.csv'", Format::Text),
            ("COPY t FROM 'b.parquet' (FORMAT csv)", Format::Csv),
            ("COPY t TO 'b' WITH (FORMAT parquet)", Format::Parquet),
            ("COPY t TO 'b.parquet' CSV", Format::Csv),
        ] {
            assert_eq!(options(sql).unwrap().format, format, "{sql}");
        }
    }

    #[test]
    fn impossible_options_are_refused() {
        for (sql, state) in [
            ("COPY t TO PROGRAM 'x'", "0A000"),
            ("COPY t FROM STDIN WHERE a > 1", "0A000"),
            ("COPY t FROM STDIN (FORMAT parquet, HEADER)", "0A000"),
            ("COPY t FROM 'x.parquet' (HEADER)", "0A000"),
            ("COPY t FROM 'x.parquet' (COMPRESSION zstd)", "0A000"),
            ("COPY t TO STDOUT (COMPRESSION zstd)", "0A000"),
            ("COPY t TO STDOUT (FORMAT arrow, COMPRESSION gzip)", "0A000"),
            ("COPY t TO STDOUT (FORMAT arrow, ROW_GROUP_SIZE 5)", "0A000"),
            ("COPY t TO STDOUT (FORMAT parquet, ROW_GROUP_SIZE 0)", "22023"),
            ("COPY t TO STDOUT (FORMAT parquet, COMPRESSION brotli)", "22023"),
            ("COPY t FROM STDIN (FORMAT xml)", "22023"),
            ("COPY t FROM STDIN (FORMAT binary, DELIMITER ',')", "42601"),
            ("COPY t FROM STDIN (QUOTE 'x')", "0A000"),
            ("COPY t FROM STDIN (DELIMITER 'ab')", "0A000"),
            ("COPY t FROM STDIN (FORMAT csv, DELIMITER '\"')", "22023"),
            ("COPY t FROM STDIN (NONSENSE 1)", "42601"),
            ("COPY t FROM STDIN (ENCODING 'latin1')", "22023"),
            ("COPY t STDIN", "42601"),
            ("COPY (SELECT 1) FROM STDIN", "42601"),
            ("COPY t FROM STDIN (FORMAT csv", "42601"),
        ] {
            assert_eq!(options(sql).unwrap_err().state().0, state, "{sql}");
        }
    }
}
