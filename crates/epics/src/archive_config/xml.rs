//! A reader of the part of XML that configurations use: elements and text. Attributes, comments, processing instructions
//! and the document type are passed over; entities other than the five of XML and numbers are an error.

/// Part of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A start tag. An empty element is followed by its [`Token::Close`].
    Open(&'a str),
    /// An end tag.
    Close(&'a str),
    /// Text, with its entities replaced.
    Text(String),
}

/// A place where the document is not XML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) what: &'static str,
    pub(super) seen: String,
    pub(super) expected: &'static str,
}

/// Iterator over the tokens of a document. After an error it ends.
pub(super) struct Tokens<'a> {
    rest: &'a str,
    /// Line of `rest`, and of the token that was returned last.
    rest_line: u32,
    pub(super) line: u32,
    /// End of an empty element that was opened.
    close: Option<&'a str>,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Tokens<'a> {
        Tokens { rest: text, rest_line: 1, line: 1, close: None }
    }

    /// Passes `bytes` of the rest and returns them.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        self.rest_line += lines(taken);
        taken
    }

    /// Passes what is up to `end`, and `end`; returns what is before `end`.
    fn take_until(&mut self, end: &str, what: &'static str, expected: &'static str) -> Result<&'a str, Malformed> {
        match self.rest.find(end) {
            Some(at) => {
                let taken = self.take(at + end.len());
                Ok(&taken[..at])
            }
            None => Err(self.malformed(what, expected)),
        }
    }

    fn malformed(&mut self, what: &'static str, expected: &'static str) -> Malformed {
        let seen = self.rest.lines().next().unwrap_or_default().to_owned();
        self.rest = "";
        Malformed { what, seen, expected }
    }

    fn token(&mut self) -> Result<Option<Token<'a>>, Malformed> {
        if let Some(name) = self.close.take() {
            return Ok(Some(Token::Close(name)));
        }
        loop {
            self.line = self.rest_line;
            if self.rest.is_empty() {
                return Ok(None);
            } else if self.rest.starts_with("<!--") {
                self.take(4);
                self.take_until("-->", "comment", "-->")?;
            } else if self.rest.starts_with("<![CDATA[") {
                self.take(9);
                return Ok(Some(Token::Text(self.take_until("]]>", "text", "]]>")?.to_owned())));
            } else if self.rest.starts_with("<?") {
                self.take_until("?>", "processing instruction", "?>")?;
            } else if self.rest.starts_with("<!") {
                self.document_type()?;
            } else if self.rest.starts_with("</") {
                self.take(2);
                return Ok(Some(Token::Close(self.take_until(">", "end tag", ">")?.trim())));
            } else if self.rest.starts_with('<') {
                return self.start_tag().map(Some);
            } else {
                let end = self.rest.find('<').unwrap_or(self.rest.len());
                let text = self.take(end);
                return match unescape(text) {
                    Ok(text) => Ok(Some(Token::Text(text))),
                    Err((at, malformed)) => {
                        self.line += lines(&text[..at]);
                        Err(malformed)
                    }
                };
            }
        }
    }

    /// Passes `<!DOCTYPE …>`, which may have declarations in square brackets.
    fn document_type(&mut self) -> Result<(), Malformed> {
        let end = self.rest.find('>').unwrap_or(self.rest.len());
        match self.rest[..end].find('[') {
            Some(_) => {
                self.take_until("]", "document type", "]")?;
                self.take_until(">", "document type", ">")?;
            }
            None => {
                self.take_until(">", "document type", ">")?;
            }
        }
        Ok(())
    }

    fn start_tag(&mut self) -> Result<Token<'a>, Malformed> {
        let Some(end) = tag_end(self.rest) else { return Err(self.malformed("tag", ">")) };
        let tag = &self.take(end + 1)[1..end];
        let (tag, empty) = match tag.strip_suffix('/') {
            Some(tag) => (tag, true),
            None => (tag, false),
        };
        let name = tag.split(|c: char| c.is_whitespace()).next().unwrap_or_default();
        if name.is_empty() {
            return Err(Malformed { what: "tag", seen: format!("<{tag}>"), expected: "a name after <" });
        }
        self.close = empty.then_some(name);
        Ok(Token::Open(name))
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Result<Token<'a>, Malformed>;

    fn next(&mut self) -> Option<Result<Token<'a>, Malformed>> {
        let token = self.token();
        if token.is_err() {
            self.rest = "";
        }
        token.transpose()
    }
}

/// Place of the `>` that ends a tag: one that is not in a quoted attribute.
fn tag_end(tag: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in tag.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

/// Number of line feeds.
fn lines(text: &str) -> u32 {
    memchr::memchr_iter(b'\n', text.as_bytes()).count() as u32
}

/// Replaces entities. An error has the offset of the wrong one.
fn unescape(text: &str) -> Result<String, (usize, Malformed)> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        out.push_str(&rest[..start]);
        let malformed = || {
            let seen = rest[start..].chars().take(12).collect();
            let expected = "&lt; &gt; &amp; &apos; &quot; or the number of a character";
            (text.len() - rest.len() + start, Malformed { what: "entity", seen, expected })
        };
        let (name, behind) = rest[start + 1..].split_once(';').ok_or_else(malformed)?;
        let character = match name {
            "lt" => Some('<'),
            "gt" => Some('>'),
            "amp" => Some('&'),
            "apos" => Some('\''),
            "quot" => Some('"'),
            _ => numbered(name),
        };
        out.push(character.ok_or_else(malformed)?);
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

fn numbered(name: &str) -> Option<char> {
    let digits = name.strip_prefix('#')?;
    let number = match digits.strip_prefix('x') {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    char::from_u32(number.ok()?)
}
