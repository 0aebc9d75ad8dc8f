//! Operands that begin with a key word, and calls of functions.

use model::{Result, SqlState};

use super::expr::{cast, plain_call, system_call};
use super::types::system;
use super::{K, Parser, T};
use crate::ast::{
    Case, CastSyntax, Expr, ExprKind, Frame, FrameBound, FrameExclude, FrameUnit, FunctionCall, Ident, Name,
    NamedArgument, NullsOrder, Over, Pos, SortBy, SortDirection, SqlValue, TypeName, WindowSpec, XmlExpr, XmlOp,
    XmlSerialize, XmlStandalone,
};
use crate::keyword::Keyword;

/// Errors of frames.
const WINDOWING_ERROR: SqlState = SqlState("42P20");

impl Parser<'_> {
    /// An operand that begins with a key word.
    pub(super) fn keyword_expr(&mut self, keyword: Keyword) -> Result<Expr> {
        let at = self.pos();
        let next = self.peek_at(1).kind;
        let in_parens = next == T::LeftParen;
        match keyword {
            K::Null => self.word(ExprKind::Null),
            K::True => self.word(ExprKind::Bool(true)),
            K::False => self.word(ExprKind::Bool(false)),
            K::Case => self.case(),
            K::Cast => self.cast_call(),
            K::Exists if in_parens => {
                self.advance();
                let query = self.query_in_parens()?;
                Ok(Expr::new(ExprKind::Exists(query), at))
            }
            K::Array => self.array(),
            K::Row if in_parens => {
                self.advance();
                let items = self.row_items()?;
                self.row(items, ExprKind::Row, at)
            }
            K::Coalesce if in_parens => self.of_list(ExprKind::Coalesce),
            K::Greatest if in_parens => self.of_list(ExprKind::Greatest),
            K::Least if in_parens => self.of_list(ExprKind::Least),
            K::Grouping if in_parens => self.of_list(ExprKind::Grouping),
            K::Nullif if in_parens => {
                self.advance();
                self.expect(T::LeftParen)?;
                let left = self.a_expr()?;
                self.expect(T::Comma)?;
                let right = self.a_expr()?;
                self.expect(T::RightParen)?;
                Ok(Expr::new(ExprKind::NullIf(Box::new([left, right])), at))
            }
            K::Extract if in_parens => self.extract(),
            K::Normalize if in_parens => self.normalize(),
            K::Overlay if in_parens => self.overlay(),
            K::Position if in_parens => self.position(),
            K::Substring if in_parens => self.substring(),
            K::Trim if in_parens => self.trim(),
            K::Treat if in_parens => self.treat(),
            K::Xmlconcat
            | K::Xmlelement
            | K::Xmlexists
            | K::Xmlforest
            | K::Xmlparse
            | K::Xmlpi
            | K::Xmlroot
            | K::Xmlserialize
                if in_parens =>
            {
                self.xml(keyword)
            }
            K::Collation if self.keyword_at(1) == Some(K::For) => {
                self.at += 2;
                let value = self.in_parens(Self::a_expr)?;
                Ok(system_call("pg_collation_for", vec![value], at))
            }
            K::CurrentDate => self.word(ExprKind::SqlValue(SqlValue::CurrentDate)),
            K::CurrentTime => self.precise(SqlValue::CurrentTime),
            K::CurrentTimestamp => self.precise(SqlValue::CurrentTimestamp),
            K::Localtime => self.precise(SqlValue::LocalTime),
            K::Localtimestamp => self.precise(SqlValue::LocalTimestamp),
            K::CurrentRole => self.word(ExprKind::SqlValue(SqlValue::CurrentRole)),
            K::CurrentUser => self.word(ExprKind::SqlValue(SqlValue::CurrentUser)),
            K::User => self.word(ExprKind::SqlValue(SqlValue::User)),
            K::SessionUser => self.word(ExprKind::SqlValue(SqlValue::SessionUser)),
            K::CurrentCatalog => self.word(ExprKind::SqlValue(SqlValue::CurrentCatalog)),
            K::CurrentSchema if !in_parens && !Self::is_string_kind(next) => {
                self.word(ExprKind::SqlValue(SqlValue::CurrentSchema))
            }
            K::Interval if in_parens || Self::is_string_kind(next) => self.interval_literal(),
            _ if self.begins_typed_literal(keyword) => match self.opt_keyword_type()? {
                Some(mut ty) => {
                    // A column's `char` has one character, a constant's as many as it is written with.
                    let has_length = self.tokens[self.at - 1].kind == T::RightParen;
                    if !has_length && (ty.name.is_system("bpchar") || ty.name.is_system("bit")) {
                        ty.modifiers.clear();
                    }
                    self.typed_literal(ty)
                }
                None => Err(self.unexpected()),
            },
            _ => self.named(),
        }
    }

    fn word(&mut self, kind: ExprKind) -> Result<Expr> {
        let at = self.pos();
        self.advance();
        Ok(Expr::new(kind, at))
    }

    /// A word that may have a precision.
    fn precise(&mut self, value: fn(Option<i32>) -> SqlValue) -> Result<Expr> {
        let at = self.pos();
        self.advance();
        let precision = if self.kind() == T::LeftParen { Some(self.in_parens(Self::integer)?) } else { None };
        Ok(Expr::new(ExprKind::SqlValue(value(precision)), at))
    }

    fn of_list(&mut self, kind: fn(Vec<Expr>) -> ExprKind) -> Result<Expr> {
        let at = self.pos();
        self.advance();
        let list = self.paren_list(Self::a_expr)?;
        Ok(Expr::new(kind(list), at))
    }

    /// Whether a word of a type is followed by what makes it a constant's type rather than a column.
    fn begins_typed_literal(&self, keyword: Keyword) -> bool {
        let next = self.peek_at(1);
        let is_type = super::function::is_type_word(keyword) && keyword != K::Interval;
        if keyword == K::Double {
            return next.keyword == Some(K::Precision);
        }
        is_type
            && (next.is_string()
                || next.kind == T::LeftParen
                || matches!(next.keyword, Some(K::Varying | K::Character | K::Char))
                || matches!(keyword, K::Timestamp | K::Time)
                    && (next.keyword == Some(K::Without)
                        || next.keyword == Some(K::With) && self.keyword_at(2) == Some(K::Time)))
    }

    fn interval_literal(&mut self) -> Result<Expr> {
        let at = self.pos();
        self.advance();
        if self.kind() == T::LeftParen {
            let modifiers = self.interval_precision()?;
            return self.typed_literal(system("interval", modifiers, at));
        }
        let text_at = self.pos();
        let text = Expr::new(ExprKind::String(self.string()?), text_at);
        let modifiers = self.opt_interval_fields()?;
        Ok(cast(text, system("interval", modifiers, at), CastSyntax::Literal, at))
    }

    fn case(&mut self) -> Result<Expr> {
        let at = self.pos();
        self.advance();
        let operand = if self.at(K::When) { None } else { Some(self.a_expr()?) };
        let mut branches = Vec::new();
        while self.take(K::When) {
            let condition = self.a_expr()?;
            self.need(K::Then)?;
            branches.push((condition, self.a_expr()?));
        }
        if branches.is_empty() {
            return Err(self.unexpected());
        }
        let otherwise = if self.take(K::Else) { Some(self.a_expr()?) } else { None };
        self.need(K::End)?;
        Ok(Expr::new(ExprKind::Case(Box::new(Case { operand, branches, otherwise })), at))
    }

    fn cast_call(&mut self) -> Result<Expr> {
        let at = self.pos();
        self.advance();
        let (expr, ty) = self.in_parens(Self::expr_as_type)?;
        Ok(cast(expr, ty, CastSyntax::Function, at))
    }

    fn expr_as_type(&mut self) -> Result<(Expr, TypeName)> {
        let expr = self.a_expr()?;
        self.need(K::As)?;
        Ok((expr, self.type_name()?))
    }

    fn array(&mut self) -> Result<Expr> {
        let at = self.pos();
        self.advance();
        match self.kind() {
            T::LeftBracket => self.array_items(at),
            _ => Ok(Expr::new(ExprKind::ArrayQuery(self.query_in_parens()?), at)),
        }
    }

    /// `[…]`: expressions, or lists of the same kind without ARRAY before them.
    fn array_items(&mut self, at: Pos) -> Result<Expr> {
        self.expect(T::LeftBracket)?;
        let items = match self.kind() {
            T::RightBracket => Vec::new(),
            T::LeftBracket => self.list(|parser| {
                let at = parser.pos();
                parser.tree(|parser| parser.array_items(at))
            })?,
            _ => self.expr_list()?,
        };
        self.expect(T::RightBracket)?;
        Ok(Expr::new(ExprKind::Array(items), at))
    }

    fn extract(&mut self) -> Result<Expr> {
        let at = self.pos();
        self.advance();
        self.expect(T::LeftParen)?;
        let field_at = self.pos();
        let field = match self.keyword() {
            _ if self.peek().is_string() => self.string()?,
            Some(K::Year | K::Month | K::Day | K::Hour | K::Minute | K::Second) => self.col_label()?,
            _ => self.plain_name()?,
        };
        self.need(K::From)?;
        let value = self.a_expr()?;
        self.expect(T::RightParen)?;
        Ok(system_call("extract", vec![Expr::new(ExprKind::String(field), field_at), value], at))
    }

    fn normalize(&mut self) -> Result<Expr> {
        let at = self.pos();
        self.advance();
        self.expect(T::LeftParen)?;
        let mut args = vec![self.a_expr()?];
        if self.eat(T::Comma) {
            args.push(self.opt_normal_form().ok_or_else(|| self.unexpected())?);
        }
        self.expect(T::RightParen)?;
        Ok(system_call("normalize", args, at))
    }

    /// `name(…)` of a word that also has a syntax of its own.
    fn plain_arguments(&mut self, name: &'static str, first: Vec<Expr>, at: Pos) -> Result<Expr> {
        let mut args = first;
        while self.eat(T::Comma) {
            args.push(self.func_arg()?);
        }
        self.expect(T::RightParen)?;
        let name = Name { qualifier: Box::default(), name: Ident::const_new(name), at };
        Ok(Expr::new(ExprKind::Function(Box::new(plain_call(name, args))), at))
    }

    /// The first argument, or `None` of `()`.
    fn opt_first_argument(&mut self) -> Result<Option<Expr>> {
        self.advance();
        self.expect(T::LeftParen)?;
        if self.kind() == T::RightParen { Ok(None) } else { self.func_arg().map(Some) }
    }

    fn overlay(&mut self) -> Result<Expr> {
        let at = self.pos();
        let Some(first) = self.opt_first_argument()? else { return self.plain_arguments("overlay", Vec::new(), at) };
        if !self.at(K::Placing) || matches!(first.kind, ExprKind::NamedArgument(_)) {
            return self.plain_arguments("overlay", vec![first], at);
        }
        self.advance();
        let mut args = vec![first, self.a_expr()?];
        self.need(K::From)?;
        args.push(self.a_expr()?);
        if self.take(K::For) {
            args.push(self.a_expr()?);
        }
        self.expect(T::RightParen)?;
        Ok(system_call("overlay", args, at))
    }

    fn position(&mut self) -> Result<Expr> {
        let at = self.pos();
        self.advance();
        self.expect(T::LeftParen)?;
        let part = self.b_expr()?;
        self.need(K::In)?;
        let whole = self.b_expr()?;
        self.expect(T::RightParen)?;
        Ok(system_call("position", vec![whole, part], at))
    }

    fn substring(&mut self) -> Result<Expr> {
        let at = self.pos();
        let Some(first) = self.opt_first_argument()? else { return self.plain_arguments("substring", Vec::new(), at) };
        let is_named = matches!(first.kind, ExprKind::NamedArgument(_));
        let args = match self.keyword() {
            Some(K::From) if !is_named => {
                self.advance();
                let from = self.a_expr()?;
                if self.take(K::For) { vec![first, from, self.a_expr()?] } else { vec![first, from] }
            }
            Some(K::For) if !is_named => {
                self.advance();
                let length = self.a_expr()?;
                if self.take(K::From) {
                    vec![first, self.a_expr()?, length]
                } else {
                    let one = Expr::new(ExprKind::Integer(1), Pos::default());
                    let length = cast(length, system("int4", Vec::new(), Pos::default()), CastSyntax::Operator, at);
                    self.grow()?;
                    vec![first, one, length]
                }
            }
            Some(K::Similar) if !is_named => {
                self.advance();
                let pattern = self.a_expr()?;
                self.need(K::Escape)?;
                vec![first, pattern, self.a_expr()?]
            }
            _ => return self.plain_arguments("substring", vec![first], at),
        };
        self.expect(T::RightParen)?;
        Ok(system_call("substring", args, at))
    }

    fn trim(&mut self) -> Result<Expr> {
        let at = self.pos();
        self.advance();
        self.expect(T::LeftParen)?;
        let name = match self.keyword() {
            Some(K::Leading) => "ltrim",
            Some(K::Trailing) => "rtrim",
            _ => "btrim",
        };
        if self.at_any(&[K::Both, K::Leading, K::Trailing]) {
            self.advance();
        }
        let args = if self.take(K::From) {
            self.expr_list()?
        } else {
            let mut list = self.expr_list()?;
            if list.len() == 1 && self.take(K::From) {
                let characters = list.pop();
                list = self.expr_list()?;
                list.extend(characters);
            }
            list
        };
        self.expect(T::RightParen)?;
        Ok(system_call(name, args, at))
    }

    /// A call of the function that a type names.
    fn treat(&mut self) -> Result<Expr> {
        let at = self.pos();
        self.advance();
        let (expr, ty) = self.in_parens(Self::expr_as_type)?;
        let name = Name { qualifier: Box::new([Ident::const_new("pg_catalog")]), name: ty.name.name, at };
        Ok(Expr::new(ExprKind::Function(Box::new(plain_call(name, vec![expr]))), at))
    }

    /// A call, behind the name of its function; or a constant of the type that was taken for one.
    pub(super) fn call(&mut self, name: Name) -> Result<Expr> {
        let (at, name_at) = (name.at, name.at);
        let call = self.func_application(name)?;
        if self.peek().is_string() && !call.args.is_empty() && !call.variadic && !call.distinct && !call.star {
            return self.literal_of_call(call, name_at);
        }
        let call = self.with_call_clauses(call)?;
        Ok(Expr::new(ExprKind::Function(Box::new(call)), at))
    }

    /// `type(modifiers) 'text'`
    fn literal_of_call(&mut self, call: FunctionCall, at: Pos) -> Result<Expr> {
        let named = call.args.iter().find(|arg| matches!(arg.kind, ExprKind::NamedArgument(_)));
        if let Some(named) = named {
            return Err(self.error("type modifier cannot have parameter name", named.at));
        }
        if let Some(sort) = call.order_by.first() {
            return Err(self.error("type modifier cannot have ORDER BY", sort.expr.at));
        }
        self.typed_literal(TypeName { name: call.name, modifiers: call.args, at, ..TypeName::default() })
    }

    /// `(…)` behind the name of a function.
    pub(super) fn func_application(&mut self, name: Name) -> Result<FunctionCall> {
        self.expect(T::LeftParen)?;
        let mut call = plain_call(name, Vec::new());
        if self.eat(T::RightParen) {
            return Ok(call);
        }
        if self.eat(T::Star) {
            self.expect(T::RightParen)?;
            call.star = true;
            return Ok(call);
        }
        let is_plain = !self.at_any(&[K::All, K::Distinct]);
        if !is_plain {
            call.distinct = self.at(K::Distinct);
            self.advance();
        }
        loop {
            if is_plain && self.take(K::Variadic) {
                call.variadic = true;
            }
            call.args.push(self.func_arg()?);
            if call.variadic || !self.eat(T::Comma) {
                break;
            }
        }
        call.order_by = self.opt_sort_clause()?;
        self.expect(T::RightParen)?;
        Ok(call)
    }

    /// An argument: an expression, or a named one.
    fn func_arg(&mut self) -> Result<Expr> {
        let is_named = matches!(self.peek_at(1).kind, T::ColonEquals | T::EqualsGreater);
        if !is_named || !Self::is_type_function_name(self.peek()) {
            return self.a_expr();
        }
        let at = self.pos();
        let name = self.type_function_name()?;
        self.advance();
        let value = self.a_expr()?;
        self.grow()?;
        Ok(Expr::new(ExprKind::NamedArgument(Box::new(NamedArgument { name, value })), at))
    }

    /// WITHIN GROUP, FILTER and OVER.
    fn with_call_clauses(&mut self, mut call: FunctionCall) -> Result<FunctionCall> {
        if self.at(K::Within) {
            let at = self.pos();
            self.advance();
            self.need(K::Group)?;
            let refused = [
                (!call.order_by.is_empty(), "cannot use multiple ORDER BY clauses with WITHIN GROUP"),
                (call.distinct, "cannot use DISTINCT with WITHIN GROUP"),
                (call.variadic, "cannot use VARIADIC with WITHIN GROUP"),
            ];
            let order_by =
                self.in_parens(
                    |parser| {
                        if parser.at(K::Order) { parser.opt_sort_clause() } else { Err(parser.unexpected()) }
                    },
                )?;
            if let Some((_, message)) = refused.iter().find(|(is, _)| *is) {
                return Err(self.error(*message, at));
            }
            (call.order_by, call.within_group) = (order_by, true);
        }
        if self.at(K::Filter) {
            self.advance();
            call.filter = Some(self.in_parens(|parser| {
                parser.need(K::Where)?;
                parser.a_expr()
            })?);
        }
        if self.take(K::Over) {
            let over = match self.kind() {
                T::LeftParen => Over::Spec(self.window_spec()?),
                _ => {
                    let at = self.pos();
                    Over::Window(self.col_id()?, at)
                }
            };
            call.over = Some(Box::new(over));
        }
        Ok(call)
    }

    pub(super) fn window_spec(&mut self) -> Result<WindowSpec> {
        let at = self.pos();
        self.in_parens(|parser| {
            let is_clause = parser.at_any(&[K::Partition, K::Range, K::Rows, K::Groups]);
            let base = if !is_clause && Self::is_col_id(parser.peek()) { Some(parser.col_id()?) } else { None };
            let partition_by = if parser.take_words(&[K::Partition, K::By]) { parser.expr_list()? } else { Vec::new() };
            let order_by = parser.opt_sort_clause()?;
            let frame = parser.opt_frame()?;
            Ok(WindowSpec { base, partition_by, order_by, frame, at })
        })
    }

    fn opt_frame(&mut self) -> Result<Option<Frame>> {
        let unit = match self.keyword() {
            Some(K::Range) => FrameUnit::Range,
            Some(K::Rows) => FrameUnit::Rows,
            Some(K::Groups) => FrameUnit::Groups,
            _ => return Ok(None),
        };
        self.advance();
        let is_between = self.take(K::Between);
        let (start_at, start) = (self.pos(), self.frame_bound()?);
        let mut end_at = start_at;
        let mut end = None;
        if is_between {
            self.need(K::And)?;
            end_at = self.pos();
            end = Some(self.frame_bound()?);
        }
        if let Some((message, at)) = refused_frame(&start, end.as_ref(), start_at, end_at) {
            return Err(self.error_of(WINDOWING_ERROR, message, at));
        }
        let mut exclude = FrameExclude::NoOthers;
        if self.take(K::Exclude) {
            exclude = match self.keyword() {
                Some(K::Group) => FrameExclude::Group,
                Some(K::Ties) => FrameExclude::Ties,
                Some(K::Current) if self.keyword_at(1) == Some(K::Row) => FrameExclude::CurrentRow,
                Some(K::No) if self.keyword_at(1) == Some(K::Others) => FrameExclude::NoOthers,
                Some(K::Current | K::No) => {
                    self.advance();
                    return Err(self.unexpected());
                }
                _ => return Err(self.unexpected()),
            };
            self.at += if self.at_any(&[K::Current, K::No]) { 2 } else { 1 };
        }
        Ok(Some(Frame { unit, start, end, exclude }))
    }

    fn frame_bound(&mut self) -> Result<FrameBound> {
        let bound = match (self.keyword(), self.keyword_at(1)) {
            (Some(K::Unbounded), Some(K::Preceding)) => FrameBound::UnboundedPreceding,
            (Some(K::Unbounded), Some(K::Following)) => FrameBound::UnboundedFollowing,
            (Some(K::Current), Some(K::Row)) => FrameBound::CurrentRow,
            _ => {
                let offset = Box::new(self.a_expr()?);
                let is_preceding = self.at(K::Preceding);
                if !is_preceding && !self.at(K::Following) {
                    return Err(self.unexpected());
                }
                self.advance();
                return Ok(if is_preceding { FrameBound::Preceding(offset) } else { FrameBound::Following(offset) });
            }
        };
        self.at += 2;
        Ok(bound)
    }

    pub(super) fn opt_sort_clause(&mut self) -> Result<Vec<SortBy>> {
        if !self.at(K::Order) {
            return Ok(Vec::new());
        }
        self.advance();
        self.need(K::By)?;
        self.list(Self::sort_by)
    }

    fn sort_by(&mut self) -> Result<SortBy> {
        let expr = self.a_expr()?;
        let mut at = expr.at;
        let direction = if self.take(K::Using) {
            at = self.pos();
            SortDirection::Using(Box::new(self.qual_all_op()?))
        } else {
            self.opt_asc_desc()
        };
        let nulls = self.opt_nulls_order();
        Ok(SortBy { expr, direction, nulls, at })
    }

    pub(super) fn opt_asc_desc(&mut self) -> SortDirection {
        match self.keyword() {
            Some(K::Asc) => {
                self.advance();
                SortDirection::Asc
            }
            Some(K::Desc) => {
                self.advance();
                SortDirection::Desc
            }
            _ => SortDirection::Default,
        }
    }

    pub(super) fn opt_nulls_order(&mut self) -> NullsOrder {
        if self.take_words(&[K::Nulls, K::First]) {
            NullsOrder::First
        } else if self.take_words(&[K::Nulls, K::Last]) {
            NullsOrder::Last
        } else {
            NullsOrder::Default
        }
    }

    /// XMLCONCAT and its like; `keyword` is followed by a parenthesis.
    fn xml(&mut self, keyword: Keyword) -> Result<Expr> {
        let at = self.pos();
        self.at += 2;
        let mut xml = XmlExpr { op: XmlOp::Concat, name: None, named: Vec::new(), args: Vec::new() };
        match keyword {
            K::Xmlconcat => xml.args = self.expr_list()?,
            K::Xmlforest => (xml.op, xml.named) = (XmlOp::Forest, self.xml_named()?),
            K::Xmlelement => {
                self.need(K::Name)?;
                (xml.op, xml.name) = (XmlOp::Element, Some(self.col_label()?));
                let mut has_more = self.eat(T::Comma);
                if has_more && self.at(K::Xmlattributes) && self.peek_at(1).kind == T::LeftParen {
                    self.advance();
                    xml.named = self.in_parens(Self::xml_named)?;
                    has_more = self.eat(T::Comma);
                }
                if has_more {
                    xml.args = self.expr_list()?;
                }
            }
            K::Xmlpi => {
                self.need(K::Name)?;
                (xml.op, xml.name) = (XmlOp::Pi, Some(self.col_label()?));
                if self.eat(T::Comma) {
                    xml.args.push(self.a_expr()?);
                }
            }
            K::Xmlparse => {
                let document = self.document_or_content()?;
                xml.args.push(self.a_expr()?);
                let preserve = self.take_words(&[K::Preserve, K::Whitespace]);
                if !preserve {
                    self.take_words(&[K::Strip, K::Whitespace]);
                }
                xml.op = XmlOp::Parse { document, preserve };
            }
            K::Xmlroot => self.xml_root(&mut xml)?,
            K::Xmlexists => {
                let row = self.tree(Self::c_expr)?;
                let document = self.tree(Self::xml_passing)?;
                self.expect(T::RightParen)?;
                return Ok(system_call("xmlexists", vec![row, document], at));
            }
            _ => {
                let document = self.document_or_content()?;
                let expr = self.a_expr()?;
                self.need(K::As)?;
                let ty = self.simple_type_name()?;
                self.expect(T::RightParen)?;
                return Ok(Expr::new(ExprKind::XmlSerialize(Box::new(XmlSerialize { document, expr, ty })), at));
            }
        }
        self.expect(T::RightParen)?;
        Ok(Expr::new(ExprKind::Xml(Box::new(xml)), at))
    }

    fn document_or_content(&mut self) -> Result<bool> {
        let is_document = self.take(K::Document);
        if !is_document {
            self.need(K::Content)?;
        }
        Ok(is_document)
    }

    fn xml_named(&mut self) -> Result<Vec<(Expr, Option<Ident>)>> {
        self.list(|parser| {
            let value = parser.a_expr()?;
            let name = if parser.take(K::As) { Some(parser.col_label()?) } else { None };
            Ok((value, name))
        })
    }

    fn xml_root(&mut self, xml: &mut XmlExpr) -> Result<()> {
        xml.args.push(self.a_expr()?);
        self.expect(T::Comma)?;
        self.need(K::Version)?;
        if self.take_words(&[K::No, K::Value]) {
            xml.args.push(Expr::new(ExprKind::Null, self.pos()));
        } else {
            xml.args.push(self.a_expr()?);
        }
        let mut standalone = XmlStandalone::Omitted;
        if self.eat(T::Comma) {
            self.need(K::Standalone)?;
            standalone = if self.take(K::Yes) {
                XmlStandalone::Yes
            } else {
                self.need(K::No)?;
                if self.take(K::Value) { XmlStandalone::NoValue } else { XmlStandalone::No }
            };
        }
        xml.op = XmlOp::Root(standalone);
        Ok(())
    }

    /// `PASSING [BY REF] document [BY REF]`
    pub(super) fn xml_passing(&mut self) -> Result<Expr> {
        self.need(K::Passing)?;
        self.opt_xml_mechanism()?;
        let document = self.c_expr()?;
        self.opt_xml_mechanism()?;
        Ok(document)
    }

    fn opt_xml_mechanism(&mut self) -> Result<()> {
        if self.take(K::By) && !self.take(K::Ref) {
            self.need(K::Value)?;
        }
        Ok(())
    }

    /// A function in FROM or of an index: without WITHIN GROUP, FILTER and OVER.
    pub(super) fn func_expr_windowless(&mut self) -> Result<Expr> {
        self.tree(|parser| {
            let token = parser.peek();
            let at = parser.pos();
            if let Some(keyword) = token.keyword
                && parser.is_function_word(keyword)
            {
                return parser.keyword_expr(keyword);
            }
            let name = parser.func_name()?;
            let call = parser.func_application(name)?;
            Ok(Expr::new(ExprKind::Function(Box::new(call)), at))
        })
    }

    /// Whether the next word calls a function by a syntax of its own.
    fn is_function_word(&self, keyword: Keyword) -> bool {
        let in_parens = self.peek_at(1).kind == T::LeftParen;
        match keyword {
            K::Collation => self.keyword_at(1) == Some(K::For),
            K::CurrentDate
            | K::CurrentTime
            | K::CurrentTimestamp
            | K::Localtime
            | K::Localtimestamp
            | K::CurrentRole
            | K::CurrentUser
            | K::SessionUser
            | K::User
            | K::CurrentCatalog
            | K::Cast => true,
            K::CurrentSchema => !in_parens,
            K::Extract
            | K::Normalize
            | K::Overlay
            | K::Position
            | K::Substring
            | K::Treat
            | K::Trim
            | K::Nullif
            | K::Coalesce
            | K::Greatest
            | K::Least
            | K::Xmlconcat
            | K::Xmlelement
            | K::Xmlexists
            | K::Xmlforest
            | K::Xmlparse
            | K::Xmlpi
            | K::Xmlroot
            | K::Xmlserialize => in_parens,
            _ => false,
        }
    }

    /// Whether a function begins here rather than a name: one that is called, or one of its own syntax.
    pub(super) fn at_function(&self) -> bool {
        let token = self.peek();
        if let Some(keyword) = token.keyword
            && self.is_function_word(keyword)
        {
            return true;
        }
        if !Self::is_col_id(token) && !Self::is_type_function_name(token) {
            return false;
        }
        let mut ahead = 1;
        while self.peek_at(ahead).kind == T::Dot {
            ahead += 2;
        }
        self.peek_at(ahead).kind == T::LeftParen
    }

    /// A single expression in parentheses.
    pub(super) fn paren_expr(&mut self) -> Result<Expr> {
        self.in_parens(Self::a_expr)
    }
}

/// Error of an impossible frame, with its place.
fn refused_frame(
    start: &FrameBound,
    end: Option<&FrameBound>,
    start_at: Pos,
    end_at: Pos,
) -> Option<(&'static str, Pos)> {
    use FrameBound as B;
    Some(match (start, end) {
        (B::UnboundedFollowing, _) => ("frame start cannot be UNBOUNDED FOLLOWING", start_at),
        (B::Following(_), None) => ("frame starting from following row cannot end with current row", start_at),
        (_, Some(B::UnboundedPreceding)) => ("frame end cannot be UNBOUNDED PRECEDING", end_at),
        (B::CurrentRow, Some(B::Preceding(_))) => {
            ("frame starting from current row cannot have preceding rows", end_at)
        }
        (B::Following(_), Some(B::Preceding(_) | B::CurrentRow)) => {
            ("frame starting from following row cannot have preceding rows", end_at)
        }
        _ => return None,
    })
}
