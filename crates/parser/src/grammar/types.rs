//! Names of types.

use model::{Result, SqlState};

use super::{K, Parser, T};
use crate::ast::{Expr, ExprKind, Name, Pos, TypeName, interval};

impl Parser<'_> {
    /// A type, maybe an array or a set of it.
    pub(super) fn type_name(&mut self) -> Result<TypeName> {
        let at = self.pos();
        let is_set = self.take(K::Setof);
        let ty = self.simple_type_name()?;
        self.with_dimensions(TypeName { is_set, at, ..ty })
    }

    fn with_dimensions(&mut self, mut ty: TypeName) -> Result<TypeName> {
        if self.take(K::Array) {
            let mut dimension = -1;
            if self.eat(T::LeftBracket) {
                dimension = self.integer()?;
                self.expect(T::RightBracket)?;
            }
            ty.dimensions.push(dimension);
            return Ok(ty);
        }
        while self.eat(T::LeftBracket) {
            let dimension = if self.kind() == T::Integer { self.integer()? } else { -1 };
            self.expect(T::RightBracket)?;
            ty.dimensions.push(dimension);
        }
        Ok(ty)
    }

    /// A type of a function's parameter or result: also `table.column%TYPE`.
    pub(super) fn func_type(&mut self) -> Result<TypeName> {
        let ahead = usize::from(self.at(K::Setof));
        if Self::is_type_function_name(self.peek_at(ahead)) && self.peek_at(ahead + 1).kind == T::Dot {
            let at = self.pos();
            let is_set = self.take(K::Setof);
            let name_at = self.pos();
            let first = self.type_function_name()?;
            let name = self.with_attrs(first, name_at)?;
            if self.kind() == T::Percent && self.keyword_at(1) == Some(K::Type) {
                self.at += 2;
                return Ok(TypeName { name, is_set, is_column_type: true, at, ..TypeName::default() });
            }
            let modifiers = self.opt_type_modifiers()?;
            return self.with_dimensions(TypeName { name, modifiers, is_set, at, ..TypeName::default() });
        }
        self.type_name()
    }

    pub(super) fn opt_type_modifiers(&mut self) -> Result<Vec<Expr>> {
        if self.kind() == T::LeftParen { self.paren_list(Self::a_expr) } else { Ok(Vec::new()) }
    }

    pub(super) fn simple_type_name(&mut self) -> Result<TypeName> {
        let at = self.pos();
        if self.take(K::Interval) {
            let modifiers = self.opt_interval_modifiers()?;
            return Ok(system("interval", modifiers, at));
        }
        if let Some(ty) = self.opt_keyword_type()? {
            return Ok(ty);
        }
        let first = self.type_function_name()?;
        let name = self.with_attrs(first, at)?;
        let modifiers = self.opt_type_modifiers()?;
        Ok(TypeName { name, modifiers, at, ..TypeName::default() })
    }

    /// `(p)`, or the fields behind INTERVAL.
    fn opt_interval_modifiers(&mut self) -> Result<Vec<Expr>> {
        if self.kind() != T::LeftParen {
            return self.opt_interval_fields();
        }
        self.interval_precision()
    }

    pub(super) fn interval_precision(&mut self) -> Result<Vec<Expr>> {
        let precision = self.in_parens(Self::integer_const)?;
        Ok(vec![integer(interval::FULL), precision])
    }

    fn integer_const(&mut self) -> Result<Expr> {
        let at = self.pos();
        Ok(Expr::new(ExprKind::Integer(self.integer()?), at))
    }

    /// `YEAR TO MONTH` and its like, as type modifiers.
    pub(super) fn opt_interval_fields(&mut self) -> Result<Vec<Expr>> {
        use interval::{DAY, HOUR, MINUTE, MONTH, SECOND, YEAR};
        const TO_SECOND: i32 = SECOND;
        let Some(first) = self.keyword() else { return Ok(Vec::new()) };
        // Masks of the fields from the first to the last one that may follow TO.
        let ends: &[(K, i32)] = match first {
            K::Year => &[(K::Year, YEAR), (K::Month, YEAR | MONTH)],
            K::Month => &[(K::Month, MONTH)],
            K::Day => &[
                (K::Day, DAY),
                (K::Hour, DAY | HOUR),
                (K::Minute, DAY | HOUR | MINUTE),
                (K::Second, DAY | HOUR | MINUTE | TO_SECOND),
            ],
            K::Hour => &[(K::Hour, HOUR), (K::Minute, HOUR | MINUTE), (K::Second, HOUR | MINUTE | TO_SECOND)],
            K::Minute => &[(K::Minute, MINUTE), (K::Second, MINUTE | TO_SECOND)],
            K::Second => &[(K::Second, SECOND)],
            _ => return Ok(Vec::new()),
        };
        self.advance();
        let mut mask = ends[0].1;
        let mut last = first;
        if ends.len() > 1 && self.take(K::To) {
            let end = ends[1..].iter().find(|(keyword, _)| self.at(*keyword)).ok_or_else(|| self.unexpected())?;
            (last, mask) = *end;
            self.advance();
        }
        let mut modifiers = vec![integer(mask)];
        if last == K::Second && self.kind() == T::LeftParen {
            modifiers.push(self.in_parens(Self::integer_const)?);
        }
        Ok(modifiers)
    }

    /// A type that is named by key words, but INTERVAL.
    pub(super) fn opt_keyword_type(&mut self) -> Result<Option<TypeName>> {
        let at = self.pos();
        let Some(keyword) = self.keyword() else { return Ok(None) };
        let name = match keyword {
            K::Int | K::Integer => "int4",
            K::Smallint => "int2",
            K::Bigint => "int8",
            K::Real => "float4",
            K::Boolean => "bool",
            K::Float => return self.float().map(Some),
            K::Double if self.keyword_at(1) == Some(K::Precision) => {
                self.at += 2;
                return Ok(Some(system("float8", Vec::new(), at)));
            }
            K::Decimal | K::Dec | K::Numeric => {
                self.advance();
                let modifiers = self.opt_type_modifiers()?;
                return Ok(Some(system("numeric", modifiers, at)));
            }
            K::Bit => return self.bit().map(Some),
            K::Character | K::Char | K::Varchar | K::National | K::Nchar => return self.character().map(Some),
            K::Timestamp | K::Time => return self.datetime().map(Some),
            _ => return Ok(None),
        };
        self.advance();
        Ok(Some(system(name, Vec::new(), at)))
    }

    fn float(&mut self) -> Result<TypeName> {
        let at = self.pos();
        self.advance();
        let mut name = "float8";
        if self.eat(T::LeftParen) {
            let bits_at = self.pos();
            let bits = self.integer()?;
            let refused = match bits {
                ..1 => Some("precision for type float must be at least 1 bit"),
                54.. => Some("precision for type float must be less than 54 bits"),
                _ => None,
            };
            if let Some(message) = refused {
                return Err(self.error_of(SqlState::INVALID_PARAMETER_VALUE, message, bits_at));
            }
            self.expect(T::RightParen)?;
            name = if bits <= 24 { "float4" } else { "float8" };
        }
        Ok(system(name, Vec::new(), at))
    }

    fn bit(&mut self) -> Result<TypeName> {
        let at = self.pos();
        self.advance();
        let name = if self.take(K::Varying) { "varbit" } else { "bit" };
        let mut modifiers = self.opt_type_modifiers()?;
        if modifiers.is_empty() && name == "bit" {
            modifiers.push(integer(1));
        }
        Ok(system(name, modifiers, at))
    }

    fn character(&mut self) -> Result<TypeName> {
        let at = self.pos();
        let mut is_varying = self.at(K::Varchar);
        if self.take(K::National) && !self.at_any(&[K::Character, K::Char]) {
            return Err(self.unexpected());
        }
        self.advance();
        is_varying = is_varying || self.take(K::Varying);
        let modifiers = match self.kind() {
            T::LeftParen => vec![self.in_parens(Self::integer_const)?],
            _ if is_varying => Vec::new(),
            _ => vec![integer(1)],
        };
        Ok(system(if is_varying { "varchar" } else { "bpchar" }, modifiers, at))
    }

    fn datetime(&mut self) -> Result<TypeName> {
        let at = self.pos();
        let is_timestamp = self.at(K::Timestamp);
        self.advance();
        let modifiers =
            if self.kind() == T::LeftParen { vec![self.in_parens(Self::integer_const)?] } else { Vec::new() };
        let mut has_zone = false;
        if self.at_words(&[K::With, K::Time]) || self.at(K::Without) {
            has_zone = self.at(K::With);
            self.advance();
            self.need_words(&[K::Time, K::Zone])?;
        }
        let name = match (is_timestamp, has_zone) {
            (true, false) => "timestamp",
            (true, true) => "timestamptz",
            (false, false) => "time",
            (false, true) => "timetz",
        };
        Ok(system(name, modifiers, at))
    }
}

fn integer(value: i32) -> Expr {
    Expr::new(ExprKind::Integer(value), Pos::default())
}

/// A type of `pg_catalog`.
pub(super) fn system(name: &'static str, modifiers: Vec<Expr>, at: Pos) -> TypeName {
    TypeName { name: Name::system(name, at), modifiers, at, ..TypeName::default() }
}
