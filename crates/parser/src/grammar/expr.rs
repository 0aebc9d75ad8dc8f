//! Expressions: PostgreSQL's `a_expr`, `b_expr` and `c_expr`.
//!
//! An operator is taken if it binds at least as tightly as the caller asks ([`level`]). Operators of one level go from left to
//! right, but comparisons, IS DISTINCT FROM and LIKE with their like, which do not chain: `a = b = c` is an error at the second
//! operator. What ends with no operand, as IS NULL or IN (…), may be followed by anything.

use model::Result;

use super::{K, Parser, T};
use crate::ast::{
    Between, BooleanTest, Cast, CastSyntax, Collate, Distinct, Expr, ExprKind, FunctionCall, Ident, In, InQuery,
    Indirection, Like, LikeKind, Name, OperatorExpr, OperatorName, Pos, Quantified, QuantifiedQuery, Query, Step,
    TypeName, XmlExpr, XmlOp,
};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

/// Binding powers of operators.
mod level {
    pub(super) const OR: u8 = 1;
    pub(super) const AND: u8 = 2;
    pub(super) const NOT: u8 = 3;
    pub(super) const IS: u8 = 4;
    pub(super) const COMPARISON: u8 = 5;
    /// BETWEEN, IN, LIKE, ILIKE, SIMILAR, and NOT before them.
    pub(super) const LIKE: u8 = 6;
    /// All operators that have no level of their own.
    pub(super) const OPERATOR: u8 = 7;
    pub(super) const SUM: u8 = 8;
    pub(super) const PRODUCT: u8 = 9;
    pub(super) const POWER: u8 = 10;
    pub(super) const AT: u8 = 11;
    pub(super) const COLLATE: u8 = 12;
    pub(super) const SIGN: u8 = 13;
    pub(super) const CAST: u8 = 14;
}

/// The grammar's two kinds of expressions: `b_expr` stands where AND, IN and NOT mean something else.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    A,
    B,
}

/// Content of two parentheses.
pub(super) enum Paren {
    Query(Box<Query>),
    Expr(Expr),
    /// Two or more.
    List(Vec<Expr>),
}

impl Parser<'_> {
    pub(super) fn a_expr(&mut self) -> Result<Expr> {
        self.expr(0, Mode::A)
    }

    pub(super) fn b_expr(&mut self) -> Result<Expr> {
        self.expr(0, Mode::B)
    }

    pub(super) fn expr_list(&mut self) -> Result<Vec<Expr>> {
        self.list(Self::a_expr)
    }

    /// An expression of operators that bind at least as tightly as `min`.
    fn expr(&mut self, min: u8, mode: Mode) -> Result<Expr> {
        // Constants between commas and parentheses are most of what is parsed.
        if matches!(self.kind(), T::Integer | T::Number | T::String | T::Parameter)
            && matches!(self.peek_at(1).kind, T::Comma | T::RightParen)
        {
            self.height = self.height.max(1);
            return self.constant();
        }
        self.tree(|parser| {
            let first = parser.operand(mode)?;
            parser.expr_behind(first, min, mode)
        })
    }

    /// A number, text or parameter.
    fn constant(&mut self) -> Result<Expr> {
        let (token, at) = (self.peek(), self.pos());
        let kind = match token.kind {
            T::Integer => ExprKind::Integer(self.integer_of(token)),
            T::Number => ExprKind::Number(token.text(self.sql).into()),
            T::Parameter => {
                let number = token.text(self.sql)[1..].parse().unwrap_or(u32::MAX);
                self.parameters = self.parameters.max(number);
                ExprKind::Parameter(number)
            }
            T::BitString | T::HexString => ExprKind::BitString(self.text_of(token)?),
            _ => ExprKind::String(self.text_of(token)?),
        };
        self.advance();
        Ok(Expr::new(kind, at))
    }

    /// A number with its sign.
    pub(super) fn signed_const(&mut self) -> Result<Expr> {
        let at = self.pos();
        let is_minus = self.kind() == T::Minus;
        self.advance();
        let number = self.constant()?;
        Ok(if is_minus { negated(number, at) } else { prefixed(OperatorName::plain("+"), number, at) })
    }

    /// An operand with its prefixes.
    fn operand(&mut self, mode: Mode) -> Result<Expr> {
        let at = self.pos();
        match self.kind() {
            T::Minus | T::Plus => {
                let is_minus = self.kind() == T::Minus;
                self.advance();
                let operand = self.expr(level::SIGN, mode)?;
                Ok(if is_minus { negated(operand, at) } else { prefixed(OperatorName::plain("+"), operand, at) })
            }
            T::Operator => {
                let op = self.any_operator()?;
                let operand = self.expr(level::OPERATOR + 1, mode)?;
                Ok(prefixed(op, operand, at))
            }
            T::Word => match self.keyword() {
                None => self.c_expr(),
                Some(K::Not) if mode == Mode::A => {
                    self.advance();
                    let operand = self.expr(level::NOT, mode)?;
                    Ok(Expr::new(ExprKind::Not(Box::new(operand)), at))
                }
                Some(K::Default) if mode == Mode::A => {
                    self.advance();
                    Ok(Expr::new(ExprKind::Default, at))
                }
                Some(K::Operator) if self.peek_at(1).kind == T::LeftParen => {
                    let op = self.qual_all_op()?;
                    let operand = self.expr(level::OPERATOR + 1, mode)?;
                    Ok(prefixed(op, operand, at))
                }
                Some(K::Unique) if mode == Mode::A => self.unique_predicate(),
                Some(_) => self.c_expr(),
            },
            _ => self.c_expr(),
        }
    }

    fn unique_predicate(&mut self) -> Result<Expr> {
        let at = self.pos();
        self.advance();
        self.opt_nulls_distinct()?;
        match self.paren()? {
            Paren::Query(_) => Err(self.unsupported("UNIQUE predicate is not yet implemented", at)),
            _ => Err(self.unexpected()),
        }
    }

    /// The level of the operator that is next; 0 if there is none.
    #[inline]
    fn operator_level(&self, mode: Mode) -> u8 {
        match self.kind() {
            T::Comma | T::RightParen | T::Semicolon | T::End => 0,
            T::Word => self.keyword().map_or(0, |keyword| self.keyword_level(keyword, mode)),
            T::Plus | T::Minus => level::SUM,
            T::Star | T::Slash | T::Percent => level::PRODUCT,
            T::Less | T::Greater | T::Equal | T::LessEquals | T::GreaterEquals | T::NotEquals => level::COMPARISON,
            T::TypeCast => level::CAST,
            T::Operator => level::OPERATOR,
            T::Caret => level::POWER,
            _ => 0,
        }
    }

    fn keyword_level(&self, keyword: Keyword, mode: Mode) -> u8 {
        match keyword {
            _ if self.depth == self.target_depth && self.at_label(keyword) => 0,
            K::Operator if self.peek_at(1).kind == T::LeftParen => level::OPERATOR,
            K::Is => level::IS,
            _ if mode == Mode::B => 0,
            K::And => level::AND,
            K::Or => level::OR,
            K::Isnull | K::Notnull => level::IS,
            K::Between | K::In | K::Like | K::Ilike | K::Similar => level::LIKE,
            K::Not if matches!(self.keyword_at(1), Some(K::Between | K::In | K::Like | K::Ilike | K::Similar)) => {
                level::LIKE
            }
            K::At if self.keyword_at(1) == Some(K::Time) => level::AT,
            K::Collate => level::COLLATE,
            _ => 0,
        }
    }

    /// Whether a word that could be an operator's is the label of a target, as it is the last one of it.
    fn at_label(&self, keyword: Keyword) -> bool {
        let next = self.peek_at(1);
        let ends = match next.kind {
            T::Comma | T::RightParen | T::Semicolon | T::End => true,
            _ => matches!(
                next.keyword,
                Some(
                    K::From
                        | K::Into
                        | K::Where
                        | K::Group
                        | K::Having
                        | K::Window
                        | K::Union
                        | K::Intersect
                        | K::Except
                        | K::Order
                        | K::Limit
                        | K::Offset
                        | K::Fetch
                        | K::For
                )
            ),
        };
        ends && keyword.is_bare_label()
    }

    /// An operator or postfix behind an operand.
    fn expr_behind(&mut self, mut left: Expr, min: u8, mode: Mode) -> Result<Expr> {
        loop {
            let found = self.operator_level(mode);
            // SIMILAR of SUBSTRING(…) ends its operand only where no operator waits for the rest of its own.
            let ends = min == 0 && found == level::LIKE && self.at(K::Similar) && self.keyword_at(1) != Some(K::To);
            if found == 0 || found < min || ends {
                return Ok(left);
            }
            let at = self.pos();
            let mut ends_with_operand = true;
            let was_list = matches!((&left.kind, found), (ExprKind::And(_), level::AND) | (ExprKind::Or(_), level::OR));
            left = match found {
                level::OR | level::AND => {
                    self.advance();
                    let right = self.expr(found + 1, mode)?;
                    joined(left, right, found == level::AND, at)
                }
                level::IS => {
                    let (expr, is_open) = self.is_test(left, mode)?;
                    ends_with_operand = is_open;
                    expr
                }
                level::LIKE => {
                    let (expr, is_open) = self.like(left)?;
                    ends_with_operand = is_open;
                    expr
                }
                level::CAST => {
                    self.advance();
                    let ty = self.type_name()?;
                    cast(left, ty, CastSyntax::Operator, at)
                }
                level::COLLATE => {
                    self.advance();
                    let collation = self.any_name()?;
                    Expr::new(ExprKind::Collate(Box::new(Collate { expr: left, collation })), at)
                }
                level::AT => {
                    self.at += 1;
                    self.need_words(&[K::Time, K::Zone])?;
                    let zone = self.expr(level::AT + 1, mode)?;
                    system_call("timezone", vec![zone, left], at)
                }
                _ => {
                    let op = self.operator_name()?;
                    if mode == Mode::A && self.at_any(&[K::Any, K::Some, K::All]) {
                        ends_with_operand = false;
                        self.quantified(left, op, at)?
                    } else {
                        let right = self.expr(found + 1, mode)?;
                        let operator = OperatorExpr { op, left: Some(left), right };
                        Expr::new(ExprKind::Operator(Box::new(operator)), at)
                    }
                }
            };
            // A list of AND or OR is one node, however long it is.
            if found > level::AND || !was_list {
                self.grow()?;
            }
            let chains = !matches!(found, level::IS | level::COMPARISON | level::LIKE);
            if !chains && ends_with_operand && self.operator_level(mode) == found {
                return Err(self.unexpected());
            }
        }
    }

    fn operator_name(&mut self) -> Result<OperatorName> {
        if self.at(K::Operator) {
            return self.qual_all_op();
        }
        let symbol = self.symbol_of(self.peek());
        self.advance();
        Ok(OperatorName { schema: Box::default(), symbol })
    }

    /// `ANY (…)`, SOME or ALL behind an operator.
    fn quantified(&mut self, left: Expr, op: OperatorName, at: Pos) -> Result<Expr> {
        let all = self.at(K::All);
        self.advance();
        let kind = match self.paren()? {
            Paren::Query(query) => ExprKind::QuantifiedQuery(Box::new(QuantifiedQuery { op, all, left, query })),
            Paren::Expr(right) => ExprKind::Quantified(Box::new(Quantified { op, all, left, right })),
            Paren::List(_) => return Err(self.unexpected()),
        };
        Ok(Expr::new(kind, at))
    }

    /// IS …, ISNULL and NOTNULL, and whether it ends with an operand.
    fn is_test(&mut self, left: Expr, mode: Mode) -> Result<(Expr, bool)> {
        let at = self.pos();
        let keyword = self.keyword();
        self.advance();
        if keyword != Some(K::Is) {
            let left = Box::new(left);
            let kind = if keyword == Some(K::Isnull) { ExprKind::IsNull(left) } else { ExprKind::IsNotNull(left) };
            return Ok((Expr::new(kind, at), false));
        }
        let not = self.take(K::Not);
        let Some(keyword) = self.keyword() else { return Err(self.unexpected()) };
        if keyword == K::Distinct {
            self.advance();
            self.need(K::From)?;
            let right = self.expr(level::IS + 1, mode)?;
            let kind = ExprKind::Distinct(Box::new(Distinct { not, left, right }));
            return Ok((Expr::new(kind, at), true));
        }
        if keyword == K::Document {
            self.advance();
            let xml = XmlExpr { op: XmlOp::IsDocument, name: None, named: Vec::new(), args: vec![left] };
            return Ok((maybe_not(Expr::new(ExprKind::Xml(Box::new(xml)), at), not, at), false));
        }
        if mode == Mode::B {
            return Err(self.unexpected());
        }
        let test = |left, test| ExprKind::BooleanTest(Box::new(left), test);
        let kind = match keyword {
            K::Null if not => ExprKind::IsNotNull(Box::new(left)),
            K::Null => ExprKind::IsNull(Box::new(left)),
            K::True => test(left, if not { BooleanTest::NotTrue } else { BooleanTest::True }),
            K::False => test(left, if not { BooleanTest::NotFalse } else { BooleanTest::False }),
            K::Unknown => test(left, if not { BooleanTest::NotUnknown } else { BooleanTest::Unknown }),
            K::Normalized | K::Nfc | K::Nfd | K::Nfkc | K::Nfkd => {
                let mut args = vec![left];
                args.extend(self.opt_normal_form());
                self.need(K::Normalized)?;
                return Ok((maybe_not(system_call("is_normalized", args, at), not, at), false));
            }
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok((Expr::new(kind, at), false))
    }

    pub(super) fn opt_normal_form(&mut self) -> Option<Expr> {
        let at = self.pos();
        let form = match self.keyword()? {
            K::Nfc => "NFC",
            K::Nfd => "NFD",
            K::Nfkc => "NFKC",
            K::Nfkd => "NFKD",
            _ => return None,
        };
        self.advance();
        Some(Expr::new(ExprKind::String(form.into()), at))
    }

    /// `[NOT] BETWEEN, IN, LIKE, ILIKE, SIMILAR TO`, and whether it ends with an operand.
    fn like(&mut self, expr: Expr) -> Result<(Expr, bool)> {
        let at = self.pos();
        let not = self.take(K::Not);
        let keyword = self.keyword();
        self.advance();
        let (kind, is_open) = match keyword {
            Some(K::Between) => {
                let symmetric = self.take(K::Symmetric);
                if !symmetric {
                    self.take(K::Asymmetric);
                }
                let low = self.expr(0, Mode::B)?;
                self.need(K::And)?;
                let high = self.expr(level::LIKE + 1, Mode::A)?;
                (ExprKind::Between(Box::new(Between { not, symmetric, expr, low, high })), true)
            }
            Some(K::In) => {
                let kind = match self.paren()? {
                    Paren::Query(query) => ExprKind::InQuery(Box::new(InQuery { not, expr, query })),
                    Paren::Expr(one) => ExprKind::In(Box::new(In { not, expr, list: vec![one] })),
                    Paren::List(list) => ExprKind::In(Box::new(In { not, expr, list })),
                };
                (kind, false)
            }
            _ => {
                let kind = match keyword {
                    Some(K::Like) => LikeKind::Like,
                    Some(K::Ilike) => LikeKind::ILike,
                    _ => {
                        self.need(K::To)?;
                        LikeKind::Similar
                    }
                };
                if kind != LikeKind::Similar && self.at_any(&[K::Any, K::Some, K::All]) {
                    let op = OperatorName::plain(kind.operator(not));
                    return Ok((self.quantified(expr, op, at)?, false));
                }
                let pattern = self.expr(level::LIKE + 1, Mode::A)?;
                let escape = if self.take(K::Escape) { Some(self.expr(level::LIKE + 1, Mode::A)?) } else { None };
                (ExprKind::Like(Box::new(Like { kind, not, expr, pattern, escape })), true)
            }
        };
        Ok((Expr::new(kind, at), is_open))
    }

    /// An operand without prefix.
    pub(super) fn c_expr(&mut self) -> Result<Expr> {
        let token = self.peek();
        match token.kind {
            T::Word => match token.keyword {
                None => self.named(),
                Some(keyword) => self.keyword_expr(keyword),
            },
            T::Integer
            | T::Number
            | T::String
            | T::EscapeString
            | T::UnicodeString
            | T::DollarString
            | T::BitString
            | T::HexString => self.constant(),
            T::Parameter => {
                let parameter = self.constant()?;
                self.with_steps(parameter)
            }
            T::LeftParen => {
                let at = self.pos();
                let paren = self.paren()?;
                self.of_paren(paren, at)
            }
            T::QuotedName | T::UnicodeName => self.named(),
            _ => Err(self.unexpected()),
        }
    }

    /// An expression that begins with a name: a column, a call, or a constant of a type.
    pub(super) fn named(&mut self) -> Result<Expr> {
        let token = self.peek();
        let at = self.pos();
        let (is_column, is_function) = (Self::is_col_id(token), Self::is_type_function_name(token));
        if !is_column && !is_function {
            return Err(self.unexpected());
        }
        let name = self.name_of(token)?;
        self.advance();
        match self.kind() {
            T::Dot | T::LeftBracket if is_column => self.path(name, at),
            T::LeftParen if is_function => self.call(Name { qualifier: Box::default(), name, at }),
            T::String | T::EscapeString | T::UnicodeString | T::DollarString if is_function => {
                let name = Name { qualifier: Box::default(), name, at };
                self.typed_literal(TypeName { name, at, ..TypeName::default() })
            }
            _ if is_column => Ok(Expr::new(ExprKind::Column(name), at)),
            _ => Err(self.unexpected()),
        }
    }

    /// A name of several parts, or with subscripts.
    fn path(&mut self, first: Ident, at: Pos) -> Result<Expr> {
        let mut parts = vec![first];
        let mut kind = None;
        while kind.is_none() && self.kind() == T::Dot {
            self.advance();
            if self.eat(T::Star) {
                if matches!(self.kind(), T::Dot | T::LeftBracket) {
                    self.steps()?;
                    return Err(self.error_near("improper use of \"*\""));
                }
                kind = Some(ExprKind::Wildcard(std::mem::take(&mut parts).into()));
            } else {
                parts.push(self.col_label()?);
            }
        }
        if let Some(kind) = kind {
            return Ok(Expr::new(kind, at));
        }
        let is_path = parts.len() > 1;
        if self.kind() == T::LeftBracket {
            let name = parts_expr(parts, at);
            return self.with_steps(name);
        }
        match self.kind() {
            T::LeftParen => self.call(name_of_parts(parts, at)),
            _ if self.peek().is_string() && is_path => {
                let name = name_of_parts(parts, at);
                self.typed_literal(TypeName { name, at, ..TypeName::default() })
            }
            _ => Ok(parts_expr(parts, at)),
        }
    }

    /// The text behind a type.
    pub(super) fn typed_literal(&mut self, ty: TypeName) -> Result<Expr> {
        let text_at = self.pos();
        let text = self.string()?;
        let at = ty.at;
        Ok(cast(Expr::new(ExprKind::String(text), text_at), ty, CastSyntax::Literal, at))
    }

    /// Fields and subscripts, if there are any.
    pub(super) fn with_steps(&mut self, expr: Expr) -> Result<Expr> {
        if !matches!(self.kind(), T::Dot | T::LeftBracket) {
            return Ok(expr);
        }
        let at = expr.at;
        let steps = self.steps()?;
        self.grow()?;
        Ok(Expr::new(ExprKind::Indirection(Box::new(Indirection { expr, steps })), at))
    }

    /// `.a`, `.*`, `[1]`, `[1:2]`, as many as there are.
    pub(super) fn steps(&mut self) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        loop {
            match self.kind() {
                T::Dot => {
                    self.advance();
                    steps.push(if self.eat(T::Star) { Step::All } else { Step::Field(self.col_label()?) });
                }
                T::LeftBracket => steps.push(self.subscript()?),
                _ => break,
            }
        }
        if steps.iter().rev().skip(1).any(|step| matches!(step, Step::All)) {
            return Err(self.error_near("improper use of \"*\""));
        }
        Ok(steps)
    }

    fn subscript(&mut self) -> Result<Step> {
        self.advance();
        let low = if self.kind() == T::Colon { None } else { Some(self.a_expr()?) };
        let step = match (self.eat(T::Colon), low) {
            (true, low) => {
                let high = if self.kind() == T::RightBracket { None } else { Some(self.a_expr()?) };
                Step::Slice(low, high)
            }
            (false, Some(index)) => Step::Index(index),
            (false, None) => return Err(self.unexpected()),
        };
        self.expect(T::RightBracket)?;
        Ok(step)
    }

    /// The content of parentheses: a query, or expressions.
    ///
    /// Whether `((SELECT 1)…` goes on as a query or an expression is known only behind the inner parenthesis, so that the inner
    /// one is parsed first, as what it is, and then continued.
    pub(super) fn paren(&mut self) -> Result<Paren> {
        self.expect(T::LeftParen)?;
        if self.at_query_word() {
            let query = self.query_no_parens()?;
            self.expect(T::RightParen)?;
            return Ok(Paren::Query(query));
        }
        if self.kind() == T::LeftParen && self.parens_begin_query() {
            return self.paren_of_paren();
        }
        let first = self.a_expr()?;
        self.paren_behind(first)
    }

    fn paren_of_paren(&mut self) -> Result<Paren> {
        let at = self.pos();
        let inner = self.nested(Self::paren)?;
        let first = match inner {
            Paren::Query(query) if self.kind() == T::RightParen => {
                self.advance();
                return Ok(Paren::Query(query));
            }
            Paren::Query(query) if self.goes_on_as_query() => {
                let query = self.query_behind(query)?;
                self.expect(T::RightParen)?;
                return Ok(Paren::Query(query));
            }
            inner => self.tree(|parser| {
                let first = parser.of_paren(inner, at)?;
                parser.grow()?;
                parser.expr_behind(first, 0, Mode::A)
            })?,
        };
        self.paren_behind(first)
    }

    /// The rest of a list in parentheses.
    fn paren_behind(&mut self, first: Expr) -> Result<Paren> {
        if self.eat(T::RightParen) {
            return Ok(Paren::Expr(first));
        }
        let mut list = vec![first];
        while self.eat(T::Comma) {
            list.push(self.a_expr()?);
        }
        self.expect(T::RightParen)?;
        if list.len() == 1 {
            return Err(self.unexpected());
        }
        Ok(Paren::List(list))
    }

    /// Whether nothing but parentheses stand before a query.
    pub(super) fn parens_begin_query(&self) -> bool {
        let parens = self.tokens[self.at..].iter().take_while(|token| token.kind == T::LeftParen).count();
        self.is_query_word(parens)
    }

    /// A parenthesised operand with what may follow it.
    fn of_paren(&mut self, paren: Paren, at: Pos) -> Result<Expr> {
        match paren {
            Paren::Query(query) => self.with_steps(Expr::new(ExprKind::Subquery(query), at)),
            // A star ends no expression, but it may end what is in parentheses.
            Paren::Expr(expr) => self.with_steps(expr),
            Paren::List(list) => self.row(list, ExprKind::ImplicitRow, at),
        }
    }

    /// A row, or two rows that overlap.
    pub(super) fn row(&mut self, list: Vec<Expr>, kind: fn(Vec<Expr>) -> ExprKind, at: Pos) -> Result<Expr> {
        if !self.at(K::Overlaps) {
            return Ok(Expr::new(kind(list), at));
        }
        let op_at = self.pos();
        self.advance();
        let right_at = self.pos();
        let right = if self.take(K::Row) {
            self.row_items()?
        } else {
            match self.paren()? {
                Paren::List(list) => list,
                _ => return Err(self.unexpected()),
            }
        };
        for (side, count, at) in [("left", list.len(), at), ("right", right.len(), right_at)] {
            if count != 2 {
                return Err(self.error(format!("wrong number of parameters on {side} side of OVERLAPS expression"), at));
            }
        }
        Ok(system_call("overlaps", list.into_iter().chain(right).collect(), op_at))
    }

    pub(super) fn row_items(&mut self) -> Result<Vec<Expr>> {
        self.expect(T::LeftParen)?;
        if self.eat(T::RightParen) {
            return Ok(Vec::new());
        }
        let items = self.expr_list()?;
        self.expect(T::RightParen)?;
        Ok(items)
    }

    /// Whether a token begins a text constant.
    pub(super) fn is_string_kind(kind: TokenKind) -> bool {
        matches!(kind, T::String | T::EscapeString | T::UnicodeString | T::DollarString)
    }
}

fn parts_expr(parts: Vec<Ident>, at: Pos) -> Expr {
    let mut parts = parts;
    let kind = match parts.len() {
        1 => ExprKind::Column(parts.pop().unwrap_or_default()),
        _ => ExprKind::Path(parts.into()),
    };
    Expr::new(kind, at)
}

fn name_of_parts(mut parts: Vec<Ident>, at: Pos) -> Name {
    let name = parts.pop().unwrap_or_default();
    Name { qualifier: parts.into(), name, at }
}

pub(super) fn cast(expr: Expr, ty: TypeName, syntax: CastSyntax, at: Pos) -> Expr {
    Expr::new(ExprKind::Cast(Box::new(Cast { expr, ty, syntax })), at)
}

fn prefixed(op: OperatorName, right: Expr, at: Pos) -> Expr {
    Expr::new(ExprKind::Operator(Box::new(OperatorExpr { op, left: None, right })), at)
}

/// The sign of a constant is part of it.
fn negated(operand: Expr, at: Pos) -> Expr {
    let kind = match operand.kind {
        ExprKind::Integer(value) => ExprKind::Integer(-value),
        ExprKind::Number(text) => ExprKind::Number(match text.strip_prefix('-') {
            Some(positive) => positive.into(),
            None => compact_str::format_compact!("-{text}"),
        }),
        kind => return prefixed(OperatorName::plain("-"), Expr::new(kind, operand.at), at),
    };
    Expr::new(kind, at)
}

fn maybe_not(expr: Expr, not: bool, at: Pos) -> Expr {
    if not { Expr::new(ExprKind::Not(Box::new(expr)), at) } else { expr }
}

/// `left AND right`, as one list with what `left` is.
fn joined(left: Expr, right: Expr, and: bool, at: Pos) -> Expr {
    match (left.kind, and) {
        (ExprKind::And(mut list), true) => {
            list.push(right);
            Expr::new(ExprKind::And(list), left.at)
        }
        (ExprKind::Or(mut list), false) => {
            list.push(right);
            Expr::new(ExprKind::Or(list), left.at)
        }
        (kind, true) => Expr::new(ExprKind::And(vec![Expr::new(kind, left.at), right]), at),
        (kind, false) => Expr::new(ExprKind::Or(vec![Expr::new(kind, left.at), right]), at),
    }
}

/// A call of a function of `pg_catalog`, written with words of its own.
pub(super) fn system_call(name: &'static str, args: Vec<Expr>, at: Pos) -> Expr {
    let call = FunctionCall { sql_syntax: true, ..plain_call(Name::system(name, at), args) };
    Expr::new(ExprKind::Function(Box::new(call)), at)
}

pub(super) fn plain_call(name: Name, args: Vec<Expr>) -> FunctionCall {
    FunctionCall {
        at: name.at,
        name,
        args,
        star: false,
        distinct: false,
        variadic: false,
        within_group: false,
        sql_syntax: false,
        order_by: Vec::new(),
        filter: None,
        over: None,
    }
}
