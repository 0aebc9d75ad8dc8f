//! Expressions.

use super::{Printer, interval_words};
use crate::ast::{
    BooleanTest, Cast, CastSyntax, Expr, ExprKind, Frame, FrameBound, FrameExclude, FrameUnit, FunctionCall, LikeKind,
    NullsOrder, Over, SortBy, SortDirection, SqlValue, Step, WindowSpec, XmlExpr, XmlOp, XmlStandalone,
};

impl Printer<'_> {
    pub(super) fn expr(&mut self, expr: &Expr) {
        if let Some(text) = self.rewrites.and_then(|rewrites| rewrites.text_of(expr)) {
            return self.put(text);
        }
        match &expr.kind {
            ExprKind::Null => self.put("NULL"),
            ExprKind::Bool(true) => self.put("true"),
            ExprKind::Bool(false) => self.put("false"),
            ExprKind::Integer(value) => self.number(value),
            ExprKind::Number(text) => self.put(text),
            ExprKind::String(text) => self.text(text),
            ExprKind::BitString(text) => {
                self.put(&text[..1].to_uppercase());
                self.text(&text[1..]);
            }
            ExprKind::Parameter(number) => {
                self.put("$");
                self.number(number);
            }
            ExprKind::Column(name) => self.ident(name),
            ExprKind::Path(parts) => self.separated(parts, ".", |out, part| out.ident(part)),
            ExprKind::Wildcard(parts) => {
                for part in parts {
                    self.ident(part);
                    self.put(".");
                }
                self.put("*");
            }
            ExprKind::Operator(one) => {
                if let Some(left) = &one.left {
                    self.operand(left);
                    self.put(" ");
                }
                self.operator(&one.op);
                self.put(" ");
                self.operand(&one.right);
            }
            ExprKind::Quantified(one) => {
                self.quantifier(&one.left, &one.op, one.all);
                // A query in two parentheses is a value, in one it is the set.
                let is_query = matches!(one.right.kind, ExprKind::Subquery(_));
                self.put_if(is_query, "(");
                self.expr(&one.right);
                self.put(if is_query { "))" } else { ")" });
            }
            ExprKind::QuantifiedQuery(one) => {
                self.quantifier(&one.left, &one.op, one.all);
                self.query(&one.query);
                self.put(")");
            }
            ExprKind::And(list) => self.separated(list, " AND ", Self::operand),
            ExprKind::Or(list) => self.separated(list, " OR ", Self::operand),
            ExprKind::Not(one) => {
                self.put("NOT ");
                self.operand(one);
            }
            ExprKind::IsNull(one) => self.test(one, " IS NULL"),
            ExprKind::IsNotNull(one) => self.test(one, " IS NOT NULL"),
            ExprKind::BooleanTest(one, test) => self.test(
                one,
                match test {
                    BooleanTest::True => " IS TRUE",
                    BooleanTest::NotTrue => " IS NOT TRUE",
                    BooleanTest::False => " IS FALSE",
                    BooleanTest::NotFalse => " IS NOT FALSE",
                    BooleanTest::Unknown => " IS UNKNOWN",
                    BooleanTest::NotUnknown => " IS NOT UNKNOWN",
                },
            ),
            ExprKind::Distinct(one) => {
                self.test(&one.left, if one.not { " IS NOT DISTINCT FROM " } else { " IS DISTINCT FROM " });
                self.operand(&one.right);
            }
            ExprKind::NullIf(both) => self.of_list("NULLIF", &both[..]),
            ExprKind::In(one) => {
                self.test(&one.expr, if one.not { " NOT IN (" } else { " IN (" });
                // A single query would be the set.
                let is_query = matches!(&one.list[..], [Expr { kind: ExprKind::Subquery(_), .. }]);
                self.put_if(is_query, "(");
                self.exprs(&one.list);
                self.put(if is_query { "))" } else { ")" });
            }
            ExprKind::InQuery(one) => {
                self.test(&one.expr, if one.not { " NOT IN (" } else { " IN (" });
                self.query(&one.query);
                self.put(")");
            }
            ExprKind::Like(one) => {
                self.operand(&one.expr);
                self.put_if(one.not, " NOT");
                self.put(match one.kind {
                    LikeKind::Like => " LIKE ",
                    LikeKind::ILike => " ILIKE ",
                    LikeKind::Similar => " SIMILAR TO ",
                });
                self.operand(&one.pattern);
                self.opt(" ESCAPE ", one.escape.as_ref(), Self::operand);
            }
            ExprKind::Between(one) => {
                self.test(&one.expr, if one.not { " NOT BETWEEN " } else { " BETWEEN " });
                self.put_if(one.symmetric, "SYMMETRIC ");
                self.operand(&one.low);
                self.put(" AND ");
                self.operand(&one.high);
            }
            ExprKind::Function(call) => self.call(call),
            ExprKind::SqlValue(value) => self.sql_value(*value),
            ExprKind::Cast(cast) => self.cast(cast),
            ExprKind::Collate(one) => {
                self.test(&one.expr, " COLLATE ");
                self.name(&one.collation);
            }
            ExprKind::Case(case) => {
                self.put("CASE");
                self.opt(" ", case.operand.as_ref(), Self::operand);
                for (condition, result) in &case.branches {
                    self.put(" WHEN ");
                    self.expr(condition);
                    self.put(" THEN ");
                    self.expr(result);
                }
                self.opt(" ELSE ", case.otherwise.as_ref(), Self::expr);
                self.put(" END");
            }
            ExprKind::Row(items) => self.of_list("ROW", items),
            ExprKind::ImplicitRow(items) => self.of_list("", items),
            ExprKind::Array(items) => {
                self.put("ARRAY[");
                self.exprs(items);
                self.put("]");
            }
            ExprKind::Coalesce(items) => self.of_list("COALESCE", items),
            ExprKind::Greatest(items) => self.of_list("GREATEST", items),
            ExprKind::Least(items) => self.of_list("LEAST", items),
            ExprKind::Grouping(items) => self.of_list("GROUPING", items),
            ExprKind::Subquery(query) => self.paren_query("", query),
            ExprKind::Exists(query) => self.paren_query("EXISTS ", query),
            ExprKind::ArrayQuery(query) => self.paren_query("ARRAY", query),
            ExprKind::Indirection(one) => {
                match one.expr.kind {
                    ExprKind::Column(_) | ExprKind::Path(_) | ExprKind::Parameter(_)
                        if !matches!(one.steps.first(), Some(Step::Field(_) | Step::All))
                            || matches!(one.expr.kind, ExprKind::Parameter(_)) =>
                    {
                        self.expr(&one.expr);
                    }
                    ExprKind::Subquery(_) => self.expr(&one.expr),
                    _ => {
                        self.put("(");
                        self.expr(&one.expr);
                        self.put(")");
                    }
                }
                self.steps(&one.steps);
            }
            ExprKind::NamedArgument(one) => {
                self.ident(&one.name);
                self.put(" => ");
                self.expr(&one.value);
            }
            ExprKind::Default => self.put("DEFAULT"),
            ExprKind::CurrentOf(cursor) => {
                self.put("CURRENT OF ");
                self.ident(cursor);
            }
            ExprKind::Xml(xml) => self.xml(xml),
            ExprKind::XmlSerialize(xml) => {
                self.put(if xml.document { "XMLSERIALIZE(DOCUMENT " } else { "XMLSERIALIZE(CONTENT " });
                self.expr(&xml.expr);
                self.put(" AS ");
                self.type_name(&xml.ty);
                self.put(")");
            }
        }
    }

    pub(super) fn exprs(&mut self, exprs: &[Expr]) {
        self.list(exprs, Self::expr);
    }

    /// An expression with parentheses, unless nothing can take it apart.
    pub(super) fn operand(&mut self, expr: &Expr) {
        let is_whole = match &expr.kind {
            ExprKind::Integer(value) => *value >= 0,
            ExprKind::Number(text) => !text.starts_with('-'),
            ExprKind::Null
            | ExprKind::Bool(_)
            | ExprKind::String(_)
            | ExprKind::BitString(_)
            | ExprKind::Parameter(_)
            | ExprKind::Column(_)
            | ExprKind::Path(_)
            | ExprKind::Wildcard(_)
            | ExprKind::NullIf(_)
            | ExprKind::SqlValue(_)
            | ExprKind::Case(_)
            | ExprKind::Row(_)
            | ExprKind::ImplicitRow(_)
            | ExprKind::Array(_)
            | ExprKind::Coalesce(_)
            | ExprKind::Greatest(_)
            | ExprKind::Least(_)
            | ExprKind::Grouping(_)
            | ExprKind::Subquery(_)
            | ExprKind::Exists(_)
            | ExprKind::ArrayQuery(_)
            | ExprKind::Indirection(_)
            | ExprKind::XmlSerialize(_) => true,
            ExprKind::Xml(xml) => xml.op != XmlOp::IsDocument,
            ExprKind::Function(call) => {
                !(call.sql_syntax && matches!(call.name.name.as_str(), "timezone" | "overlaps" | "is_normalized"))
            }
            ExprKind::Cast(cast) => cast.syntax != CastSyntax::Operator,
            _ => false,
        };
        self.put_if(!is_whole, "(");
        self.expr(expr);
        self.put_if(!is_whole, ")");
    }

    fn test(&mut self, operand: &Expr, words: &str) {
        self.operand(operand);
        self.put(words);
    }

    fn of_list(&mut self, word: &str, items: &[Expr]) {
        self.put(word);
        self.parens(items, Self::expr);
    }

    fn paren_query(&mut self, word: &str, query: &crate::ast::Query) {
        self.put(word);
        self.put("(");
        self.query(query);
        self.put(")");
    }

    fn quantifier(&mut self, left: &Expr, op: &crate::ast::OperatorName, all: bool) {
        self.operand(left);
        self.put(" ");
        self.operator(op);
        self.put(if all { " ALL (" } else { " ANY (" });
    }

    pub(super) fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Field(name) => {
                    self.put(".");
                    self.ident(name);
                }
                Step::All => self.put(".*"),
                Step::Index(index) => {
                    self.put("[");
                    self.expr(index);
                    self.put("]");
                }
                Step::Slice(low, high) => {
                    self.put("[");
                    self.opt("", low.as_ref(), Self::expr);
                    self.put(":");
                    self.opt("", high.as_ref(), Self::expr);
                    self.put("]");
                }
            }
        }
    }

    fn cast(&mut self, cast: &Cast) {
        match cast.syntax {
            CastSyntax::Operator => {
                self.test(&cast.expr, "::");
                self.type_name(&cast.ty);
            }
            CastSyntax::Function => {
                self.put("CAST(");
                self.expr(&cast.expr);
                self.put(" AS ");
                self.type_name(&cast.ty);
                self.put(")");
            }
            CastSyntax::Literal => {
                let fields = match interval_words(&cast.ty.modifiers) {
                    // The fields stand behind the text.
                    Some((precision, fields)) if cast.ty.name.is_system("interval") => {
                        self.put("interval");
                        self.put(&precision);
                        fields
                    }
                    _ => {
                        self.simple_type(&cast.ty);
                        String::new()
                    }
                };
                self.put(" ");
                self.expr(&cast.expr);
                self.put(&fields);
            }
        }
    }

    fn sql_value(&mut self, value: SqlValue) {
        let (word, precision) = match value {
            SqlValue::CurrentDate => ("CURRENT_DATE", None),
            SqlValue::CurrentTime(precision) => ("CURRENT_TIME", precision),
            SqlValue::CurrentTimestamp(precision) => ("CURRENT_TIMESTAMP", precision),
            SqlValue::LocalTime(precision) => ("LOCALTIME", precision),
            SqlValue::LocalTimestamp(precision) => ("LOCALTIMESTAMP", precision),
            SqlValue::CurrentRole => ("CURRENT_ROLE", None),
            SqlValue::CurrentUser => ("CURRENT_USER", None),
            SqlValue::User => ("USER", None),
            SqlValue::SessionUser => ("SESSION_USER", None),
            SqlValue::CurrentCatalog => ("CURRENT_CATALOG", None),
            SqlValue::CurrentSchema => ("CURRENT_SCHEMA", None),
        };
        self.put(word);
        if let Some(precision) = precision {
            self.put("(");
            self.number(precision);
            self.put(")");
        }
    }

    pub(super) fn call(&mut self, call: &FunctionCall) {
        if call.sql_syntax {
            return self.call_of_words(call);
        }
        match self.rewrites.and_then(|rewrites| rewrites.function(call)) {
            Some(name) => self.put(name),
            None => self.name(&call.name),
        }
        self.put("(");
        self.put_if(call.star, "*");
        self.put_if(call.distinct, "DISTINCT ");
        for (at, arg) in call.args.iter().enumerate() {
            self.put_if(at > 0, ", ");
            self.put_if(call.variadic && at + 1 == call.args.len(), "VARIADIC ");
            self.expr(arg);
        }
        if !call.within_group {
            self.opt_list(" ORDER BY ", &call.order_by, Self::sort_by);
        }
        self.put(")");
        if call.within_group {
            self.opt_list(" WITHIN GROUP (ORDER BY ", &call.order_by, Self::sort_by);
            self.put(")");
        }
        if let Some(filter) = &call.filter {
            self.put(" FILTER (WHERE ");
            self.expr(filter);
            self.put(")");
        }
        match call.over.as_deref() {
            None => {}
            Some(Over::Window(name, _)) => {
                self.put(" OVER ");
                self.ident(name);
            }
            Some(Over::Spec(spec)) => {
                self.put(" OVER ");
                self.window(spec);
            }
        }
    }

    /// A call that was written with the standard's words.
    fn call_of_words(&mut self, call: &FunctionCall) {
        let args = &call.args[..];
        match (call.name.name.as_str(), args) {
            ("timezone", [zone, value]) => {
                self.test(value, " AT TIME ZONE ");
                self.operand(zone);
            }
            ("overlaps", [a, b, c, d]) => {
                self.of_list("", &[a.clone(), b.clone()]);
                self.of_list(" OVERLAPS ", &[c.clone(), d.clone()]);
            }
            ("is_normalized", [value, form @ ..]) => {
                self.test(value, " IS");
                self.normal_form(" ", form);
                self.put(" NORMALIZED");
            }
            ("normalize", [value, form @ ..]) => {
                self.put("NORMALIZE(");
                self.expr(value);
                self.normal_form(", ", form);
                self.put(")");
            }
            ("extract", [field, value]) => self.words_call("EXTRACT(", &[("", field), (" FROM ", value)]),
            ("position", [whole, part]) => self.words_call("POSITION(", &[("", part), (" IN ", whole)]),
            ("overlay", [value, new, from]) => {
                self.words_call("OVERLAY(", &[("", value), (" PLACING ", new), (" FROM ", from)]);
            }
            ("overlay", [value, new, from, count]) => {
                let parts = [("", value), (" PLACING ", new), (" FROM ", from), (" FOR ", count)];
                self.words_call("OVERLAY(", &parts);
            }
            ("substring", [value, from]) => self.words_call("SUBSTRING(", &[("", value), (" FROM ", from)]),
            ("substring", [value, from, count]) => {
                self.words_call("SUBSTRING(", &[("", value), (" FROM ", from), (" FOR ", count)]);
            }
            ("xmlexists", [row, document]) => self.words_call("XMLEXISTS(", &[("", row), (" PASSING ", document)]),
            ("pg_collation_for", [_]) => self.of_list("COLLATION FOR ", args),
            ("ltrim" | "rtrim" | "btrim", _) => {
                self.put(match call.name.name.as_str() {
                    "ltrim" => "TRIM(LEADING FROM ",
                    "rtrim" => "TRIM(TRAILING FROM ",
                    _ => "TRIM(BOTH FROM ",
                });
                self.exprs(args);
                self.put(")");
            }
            _ => {
                self.name(&call.name);
                self.of_list("", args);
            }
        }
    }

    fn words_call(&mut self, open: &str, parts: &[(&str, &Expr)]) {
        self.put(open);
        for (words, part) in parts {
            self.put(words);
            self.operand(part);
        }
        self.put(")");
    }

    /// The word that a text constant stands for here.
    fn normal_form(&mut self, before: &str, form: &[Expr]) {
        if let [Expr { kind: ExprKind::String(form), .. }] = form {
            self.put(before);
            self.put(form);
        }
    }

    pub(super) fn window(&mut self, spec: &WindowSpec) {
        self.put("(");
        let begin = self.out.len();
        self.opt("", spec.base.as_ref(), |out, base| out.ident(base));
        let gap = |out: &mut Self| out.put_if(out.out.len() > begin, " ");
        if !spec.partition_by.is_empty() {
            gap(self);
            self.opt_list("PARTITION BY ", &spec.partition_by, Self::expr);
        }
        if !spec.order_by.is_empty() {
            gap(self);
            self.opt_list("ORDER BY ", &spec.order_by, Self::sort_by);
        }
        if let Some(frame) = &spec.frame {
            gap(self);
            self.frame(frame);
        }
        self.put(")");
    }

    fn frame(&mut self, frame: &Frame) {
        self.put(match frame.unit {
            FrameUnit::Range => "RANGE ",
            FrameUnit::Rows => "ROWS ",
            FrameUnit::Groups => "GROUPS ",
        });
        self.put_if(frame.end.is_some(), "BETWEEN ");
        self.frame_bound(&frame.start);
        self.opt(" AND ", frame.end.as_ref(), Self::frame_bound);
        self.put(match frame.exclude {
            FrameExclude::NoOthers => "",
            FrameExclude::CurrentRow => " EXCLUDE CURRENT ROW",
            FrameExclude::Group => " EXCLUDE GROUP",
            FrameExclude::Ties => " EXCLUDE TIES",
        });
    }

    fn frame_bound(&mut self, bound: &FrameBound) {
        match bound {
            FrameBound::UnboundedPreceding => self.put("UNBOUNDED PRECEDING"),
            FrameBound::UnboundedFollowing => self.put("UNBOUNDED FOLLOWING"),
            FrameBound::CurrentRow => self.put("CURRENT ROW"),
            FrameBound::Preceding(offset) => self.test(offset, " PRECEDING"),
            FrameBound::Following(offset) => self.test(offset, " FOLLOWING"),
        }
    }

    pub(super) fn sort_by(&mut self, sort: &SortBy) {
        self.expr(&sort.expr);
        self.order(&sort.direction, sort.nulls);
    }

    pub(super) fn order(&mut self, direction: &SortDirection, nulls: NullsOrder) {
        match direction {
            SortDirection::Default => {}
            SortDirection::Asc => self.put(" ASC"),
            SortDirection::Desc => self.put(" DESC"),
            SortDirection::Using(op) => {
                self.put(" USING ");
                self.operator(op);
            }
        }
        self.put(match nulls {
            NullsOrder::Default => "",
            NullsOrder::First => " NULLS FIRST",
            NullsOrder::Last => " NULLS LAST",
        });
    }

    fn xml(&mut self, xml: &XmlExpr) {
        let named = |out: &mut Self| {
            out.list(&xml.named, |out, (value, name)| {
                out.expr(value);
                out.opt(" AS ", name.as_ref(), |out, name| out.ident(name));
            });
        };
        match xml.op {
            XmlOp::Concat => return self.of_list("XMLCONCAT", &xml.args),
            XmlOp::IsDocument => return xml.args.iter().for_each(|value| self.test(value, " IS DOCUMENT")),
            XmlOp::Forest => {
                self.put("XMLFOREST(");
                named(self);
            }
            XmlOp::Element | XmlOp::Pi => {
                self.put(if xml.op == XmlOp::Pi { "XMLPI(NAME " } else { "XMLELEMENT(NAME " });
                self.opt("", xml.name.as_ref(), |out, name| out.ident(name));
                if !xml.named.is_empty() {
                    self.put(", XMLATTRIBUTES(");
                    named(self);
                    self.put(")");
                }
                self.opt_list(", ", &xml.args, Self::expr);
            }
            XmlOp::Parse { document, preserve } => {
                self.put(if document { "XMLPARSE(DOCUMENT " } else { "XMLPARSE(CONTENT " });
                self.exprs(&xml.args);
                self.put_if(preserve, " PRESERVE WHITESPACE");
            }
            XmlOp::Root(standalone) => {
                self.put("XMLROOT(");
                self.list(&xml.args[..1], Self::expr);
                match &xml.args[1].kind {
                    ExprKind::Null => self.put(", VERSION NO VALUE"),
                    _ => self.opt_list(", VERSION ", &xml.args[1..], Self::expr),
                }
                self.put(match standalone {
                    XmlStandalone::Yes => ", STANDALONE YES",
                    XmlStandalone::No => ", STANDALONE NO",
                    XmlStandalone::NoValue => ", STANDALONE NO VALUE",
                    XmlStandalone::Omitted => "",
                });
            }
        }
        self.put(")");
    }
}
