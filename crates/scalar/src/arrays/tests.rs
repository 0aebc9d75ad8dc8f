//! Subscripts, slices and nested arrays.

use bumpalo::Bump;

use super::*;
use crate::context::Session;
use crate::eval::{Row, element_at, eval, slice};
use crate::expr::{Expr, ExprKind, Place, Subscript};
use crate::registry;
use crate::value::Value;

fn with_context(test: impl FnOnce(&Context<'_>)) {
    let (arena, session) = (Bump::new(), Session::default());
    test(&Context { arena: &arena, session: &session });
}

fn int4_array<'a>(text: &str, ctx: &Context<'a>) -> Datum<'a> {
    registry::input(text, TypeId::INT4_ARRAY, -1, ctx).unwrap()
}

fn shown(datum: &Datum<'_>, ctx: &Context<'_>) -> String {
    let mut text = String::new();
    registry::output(datum, TypeId::INT4_ARRAY, ctx, &mut text).unwrap();
    text
}

#[test]
fn arrays_of_arrays_have_another_dimension_if_theirs_agree() {
    with_context(|ctx| {
        for (parts, expected) in [
            (vec!["{1,2}", "{3,4}"], Ok("{{1,2},{3,4}}")),
            (vec!["[5:5]={1}", "[5:5]={2}"], Ok("[1:2][5:5]={{1},{2}}")),
            (vec!["{}", "{}"], Ok("{}")),
            (vec![], Ok("{}")),
            (vec!["{1}", "{}"], Err("2202E")),
            (vec!["{1}", "{1,2}"], Err("2202E")),
            (vec!["{1}", "[5:5]={2}"], Err("2202E")),
            (vec!["{{1}}", "{1}"], Err("2202E")),
            (vec!["{{{{{{1}}}}}}"], Err("54000")),
        ] {
            let arrays: Vec<Datum<'_>> = parts.iter().map(|part| int4_array(part, ctx)).collect();
            let nested = nested_array(TypeId::INT4.0, &arrays).map(|nested| shown(&nested, ctx));
            let nested = nested.as_deref().map_err(|error| error.state().0);
            assert_eq!(nested, expected, "{parts:?}");
        }
    });
}

#[test]
fn a_null_among_arrays_is_an_array_without_elements() {
    with_context(|ctx| {
        let empty = nested_array(TypeId::INT4.0, &[Datum::Null]).unwrap();
        assert_eq!(shown(&empty, ctx), "{}");
        assert!(nested_array(TypeId::INT4.0, &[int4_array("{1}", ctx), Datum::Null]).is_err());
    });
}

#[test]
fn elements_are_found_by_as_many_subscripts_as_dimensions() {
    with_context(|ctx| {
        for (of, subscripts, expected) in [
            ("{1,2}", vec![2], Some(2)),
            ("{1,2}", vec![0], None),
            ("{1,2}", vec![3], None),
            ("{1,2}", vec![1, 1], None),
            ("{{1,2},{3,4}}", vec![2, 1], Some(3)),
            ("{{1,2},{3,4}}", vec![2], None),
            ("[-2:-1]={1,2}", vec![-1], Some(2)),
            ("{1,2}", vec![i32::MIN], None),
            ("[-2147483648:-2147483647]={1,2}", vec![i32::MAX], None),
        ] {
            let datum = int4_array(of, ctx);
            let found = element_at(array(&datum).unwrap(), &subscripts);
            assert_eq!(found, expected.map(Datum::Int4).as_ref(), "{of} {subscripts:?}");
        }
    });
}

#[test]
fn slices_have_subscripts_from_1() {
    with_context(|ctx| {
        for (of, bounds, expected) in [
            ("{1,2,3}", vec![(2, 3)], "{2,3}"),
            ("{1,2,3}", vec![(-5, 1)], "{1}"),
            ("{1,2,3}", vec![(5, 6)], "{}"),
            ("{1,2,3}", vec![(2, 1)], "{}"),
            ("{1,2,3}", vec![(1, 1), (1, 1)], "{}"),
            ("[0:3]={1,2,3,4}", vec![(1, 2)], "{2,3}"),
            ("{{1,2},{3,4},{5,6}}", vec![(2, 3), (2, 2)], "{{4},{6}}"),
            ("{{1,2},{3,4},{5,6}}", vec![(2, 3)], "{{3,4},{5,6}}"),
            ("{1,2,3}", vec![(i64::MIN, i64::MAX)], "{1,2,3}"),
        ] {
            let datum = int4_array(of, ctx);
            let part = Datum::Array(Arc::new(slice(array(&datum).unwrap(), &bounds)));
            assert_eq!(shown(&part, ctx), expected, "{of} {bounds:?}");
        }
    });
}

#[test]
fn subscripts_without_bound_reach_to_the_end_and_null_ones_give_null() {
    let number = |value: i32| Expr::new(ExprKind::Constant(Value::Plain(Datum::Int4(value))), TypeId::INT4, Place(0));
    let null = || Expr::null(TypeId::INT4, Place(0));
    with_context(|ctx| {
        for (of, subscripts, expected) in [
            ("{1,2,3}", vec![Subscript::Slice(Some(number(2)), None)], "{2,3}"),
            ("[5:7]={1,2,3}", vec![Subscript::Slice(None, Some(number(6)))], "{1,2}"),
            ("{{1,2},{3,4}}", vec![Subscript::Slice(None, None), Subscript::Index(number(1))], "{{1},{3}}"),
            ("{1,2,3}", vec![Subscript::Slice(Some(null()), None)], ""),
            ("{{1,2},{3,4}}", vec![Subscript::Index(null()), Subscript::Slice(None, None)], ""),
        ] {
            let constant = Expr::new(ExprKind::Constant(Value::of(&int4_array(of, ctx))), TypeId::INT4_ARRAY, Place(0));
            let expr = Expr::new(ExprKind::Subscript(Box::new(constant), subscripts), TypeId::INT4_ARRAY, Place(0));
            let arena = Bump::new();
            let inner = Context { arena: &arena, session: ctx.session };
            assert_eq!(shown(&eval(&expr, &() as &dyn Row<'_>, &inner).unwrap(), &inner), expected, "{of}");
        }
    });
}
