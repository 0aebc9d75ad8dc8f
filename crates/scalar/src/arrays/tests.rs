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

#[test]
fn packed_numbers_are_the_same_after_packing_in_every_format() {
    with_context(|ctx| {
        let float8s = TypeId(1022);
        let call = Call { function: 9036, operator: None, arguments: Box::new([]), result: float8s };
        let text = |text| Datum::Text(text);
        for (format, numbers, bytes) in [
            ("int1", "{-128,127}", "807f"),
            ("uint1", "{0,255}", "00ff"),
            ("int2", "{-32768,1}", "00800100"),
            ("int2be", "{-32768,1}", "80000001"),
            ("uint2be", "{65535}", "ffff"),
            ("int4", "{-2}", "feffffff"),
            ("uint4", "{4294967295}", "ffffffff"),
            ("int8be", "{-2}", "fffffffffffffffe"),
            ("float4", "{1.5,Infinity,NaN}", "0000c03f0000807f0000c07f"),
            ("float8be", "{-0,5e-324}", "80000000000000000000000000000001"),
            ("float8", "{}", ""),
        ] {
            let array = registry::input(numbers, float8s, -1, ctx).unwrap();
            let packed = packed::pack(&[array, text(format)], &call, ctx).unwrap();
            let Datum::Bytes(found) = &packed else { panic!("{packed:?}") };
            let hex: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, bytes, "{format}");
            let again = packed::unpack(&[packed.clone(), text(format)], &call, ctx).unwrap();
            let mut out = String::new();
            registry::output(&again, float8s, ctx, &mut out).unwrap();
            assert_eq!(out, numbers, "{format}");
            let repacked = packed::repack(&[packed.clone(), text(format), text("float8")], &call, ctx).unwrap();
            let wide = packed::pack(&[again, text("float8")], &call, ctx).unwrap();
            assert_eq!(format!("{repacked:?}"), format!("{wide:?}"), "{format}");
        }
        for (format, numbers, state) in [
            ("int1", "{128}", "22003"),
            ("uint2", "{-1}", "22003"),
            ("int8", "{9223372036854775808}", "22003"),
            ("int4", "{NaN}", "22003"),
            ("float4", "{1e300}", "22003"),
            ("float4", "{1,NULL}", "22004"),
            ("int3", "{1}", "22023"),
        ] {
            let array = registry::input(numbers, float8s, -1, ctx).unwrap();
            let error = packed::pack(&[array, text(format)], &call, ctx).unwrap_err();
            assert_eq!(error.state().0, state, "{format}: {error}");
        }
        let cut = packed::unpack(&[Datum::Bytes(&[1, 2, 3]), text("int2")], &call, ctx).unwrap_err();
        assert_eq!(cut.message(), "3 bytes are not a whole number of int2, which have 2");
    });
}
