//! Lists of index files: the archives of the Channel Archiver that form one.
//!
//! ```xml
//! <indexconfig>
//!   <archive><index>2003/index</index></archive>
//!   <archive><index>/archives/2004/index</index></archive>
//! </indexconfig>
//! ```

use super::xml::{Malformed, Token, Tokens};
use super::{Problem, decode};

/// Index files of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexList {
    /// Paths, absolute or relative to the folder of the list. Several archives may have a PV: the Channel Archiver reads it
    /// from the first of them, Phoebus merges them.
    pub paths: Vec<String>,
    /// Problems, in the order of the input.
    pub problems: Vec<Problem>,
}

/// Parses a list of index files.
///
/// - `file`: name for problems.
#[must_use]
pub fn parse_index_list(file: &str, bytes: &[u8]) -> IndexList {
    let text = decode(bytes);
    let mut list = IndexList::default();
    // Open elements, and the text of the innermost one.
    let (mut path, mut content) = (Vec::new(), String::new());
    let mut tokens = Tokens::new(&text);
    while let Some(token) = tokens.next() {
        let at = (file, tokens.line);
        match token {
            Ok(Token::Open(name)) => {
                if path.is_empty() && name != "indexconfig" {
                    list.problems.push(Problem::new(at, "root element", name, "<indexconfig>"));
                }
                path.push(name);
                content.clear();
            }
            Ok(Token::Text(text)) => content.push_str(&text),
            Ok(Token::Close(name)) => {
                if path.last() != Some(&name) {
                    let expected = path.last().map_or("the end of the file".to_owned(), |open| format!("</{open}>"));
                    list.problems.push(Problem::new(at, "end tag", &format!("</{name}>"), expected));
                    return list;
                }
                if path == ["indexconfig", "archive", "index"] {
                    match content.trim() {
                        "" => list.problems.push(Problem::new(at, "index", "", "a path")),
                        index => list.paths.push(index.to_owned()),
                    }
                }
                path.pop();
                content.clear();
            }
            Err(Malformed { what, seen, expected }) => {
                list.problems.push(Problem::new(at, what, &seen, expected));
                return list;
            }
        }
    }
    if let Some(open) = path.last() {
        list.problems.push(Problem::new((file, tokens.line), "end of file", "", format!("</{open}>")));
    }
    list
}
