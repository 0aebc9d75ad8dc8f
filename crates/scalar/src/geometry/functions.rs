//! Functions of geometric types, in the order of the types.

use std::f64::consts::PI;

use model::{Datum, Error, Geometry, Point, Result, SqlState};

use super::boxes::{self, places};
use super::float::{add, div, eq, ge, gt, hypot, is_zero, le, lt, mul, ne, sub};
use super::lines::{self, Line, Segment};
use super::shapes::{BoxArgument, Circle, Path, Polygon, argument, closest, geometry, optional_point, point};
use super::{points, polygons};
use crate::registry::Function;

/// Functions by their arguments, which are read as shapes, and the context.
macro_rules! functions {
    ($ctx:ident => $($signature:literal, |$($name:ident: $ty:ty),*| $value:expr;)*) => {
        &[$(($signature, |arguments, _, $ctx| {
            let _ = $ctx;
            let mut at = 0..;
            $(let $name: $ty = argument(arguments, at.next().unwrap_or_default())?;)*
            Ok($value)
        })),*]
    };
}

pub(super) const FUNCTIONS: &[(&str, Function)] = functions! { ctx =>
    // Points.
    "point(float8,float8)", |x: f64, y: f64| point(Point { x, y });
    "point_eq", |a: Point, b: Point| Datum::Bool(points::same(a, b));
    "point_ne", |a: Point, b: Point| Datum::Bool(!points::same(a, b));
    "point_left", |a: Point, b: Point| Datum::Bool(lt(a.x, b.x));
    "point_right", |a: Point, b: Point| Datum::Bool(gt(a.x, b.x));
    "point_above", |a: Point, b: Point| Datum::Bool(gt(a.y, b.y));
    "point_below", |a: Point, b: Point| Datum::Bool(lt(a.y, b.y));
    "point_vert", |a: Point, b: Point| Datum::Bool(eq(a.x, b.x));
    "point_horiz", |a: Point, b: Point| Datum::Bool(eq(a.y, b.y));
    "isvertical(point,point)", |a: Point, b: Point| Datum::Bool(eq(a.x, b.x));
    "ishorizontal(point,point)", |a: Point, b: Point| Datum::Bool(eq(a.y, b.y));
    "point_add", |a: Point, b: Point| point(points::sum(a, b)?);
    "point_sub", |a: Point, b: Point| point(points::difference(a, b)?);
    "point_mul", |a: Point, b: Point| point(points::product(a, b)?);
    "point_div", |a: Point, b: Point| point(points::quotient(a, b)?);
    "point_distance", |a: Point, b: Point| Datum::Float8(points::distance(a, b)?);
    "slope", |a: Point, b: Point| Datum::Float8(points::slope(a, b)?);
    "box(point)", |a: Point| geometry(Geometry::Box([a, a]));
    "box(point,point)", |a: Point, b: Point| geometry(Geometry::Box(boxes::of_corners(a, b)));
    "lseg(point,point)", |a: Point, b: Point| geometry(Geometry::Segment([a, b]));
    "line", |a: Point, b: Point| geometry(Geometry::Line(line_through(a, b)?));
    "circle(point,float8)", |center: Point, radius: f64| geometry(Geometry::Circle(center, radius));
    "on_pl", |a: Point, line: Line| Datum::Bool(lines::line_has(line, a)?);
    "on_ps", |a: Point, segment: Segment| Datum::Bool(lines::segment_has(segment, a)?);
    "on_pb", |a: Point, b: BoxArgument| Datum::Bool(boxes::has(b.0, a));
    "on_ppath", |a: Point, path: Path<'_>| Datum::Bool(path_has(path, a)?);
    "pt_contained_poly", |a: Point, list: Polygon<'_>| Datum::Bool(polygons::has(list, a)?);
    "pt_contained_circle", |a: Point, circle: Circle| Datum::Bool(points::distance(a, circle.0)? <= circle.1);
    "dist_pl", |a: Point, line: Line| Datum::Float8(lines::line_closest(line, a)?.1);
    "dist_lp", |line: Line, a: Point| Datum::Float8(lines::line_closest(line, a)?.1);
    "dist_ps", |a: Point, segment: Segment| Datum::Float8(lines::segment_closest(segment, a)?.1);
    "dist_sp", |segment: Segment, a: Point| Datum::Float8(lines::segment_closest(segment, a)?.1);
    "dist_pb", |a: Point, b: BoxArgument| Datum::Float8(boxes::closest(b.0, a)?.1);
    "dist_bp", |b: BoxArgument, a: Point| Datum::Float8(boxes::closest(b.0, a)?.1);
    "dist_ppath", |a: Point, path: Path<'_>| Datum::Float8(path_distance(path, a)?);
    "dist_pathp", |path: Path<'_>, a: Point| Datum::Float8(path_distance(path, a)?);
    "dist_ppoly", |a: Point, list: Polygon<'_>| Datum::Float8(polygon_distance(list, a)?);
    "dist_polyp", |list: Polygon<'_>, a: Point| Datum::Float8(polygon_distance(list, a)?);
    "dist_pc", |a: Point, circle: Circle| Datum::Float8(circle_distance(circle, a)?);
    "dist_cpoint", |circle: Circle, a: Point| Datum::Float8(circle_distance(circle, a)?);
    "close_pl", |a: Point, line: Line| closest(lines::line_closest(line, a)?);
    "close_ps", |a: Point, segment: Segment| closest(lines::segment_closest(segment, a)?);
    "close_pb", |a: Point, b: BoxArgument| closest(boxes::closest(b.0, a)?);
    // Lines.
    "line_eq", |a: Line, b: Line| Datum::Bool(lines::lines_equal(a, b)?);
    "line_parallel", |a: Line, b: Line| Datum::Bool(lines::meeting(a, b)?.is_none());
    "isparallel(line,line)", |a: Line, b: Line| Datum::Bool(lines::meeting(a, b)?.is_none());
    "line_intersect", |a: Line, b: Line| Datum::Bool(lines::meeting(a, b)?.is_some());
    "line_interpt", |a: Line, b: Line| optional_point(lines::meeting(a, b)?);
    "line_perp", |a: Line, b: Line| Datum::Bool(lines::perpendicular(a, b)?);
    "isperp(line,line)", |a: Line, b: Line| Datum::Bool(lines::perpendicular(a, b)?);
    "line_vertical", |a: Line| Datum::Bool(is_zero(a[1]));
    "isvertical(line)", |a: Line| Datum::Bool(is_zero(a[1]));
    "line_horizontal", |a: Line| Datum::Bool(is_zero(a[0]));
    "ishorizontal(line)", |a: Line| Datum::Bool(is_zero(a[0]));
    "line_distance", |a: Line, b: Line| Datum::Float8(lines::line_distance(a, b)?);
    "inter_lb", |line: Line, b: BoxArgument| Datum::Bool(boxes::meets_line(b.0, line)?);
    "dist_ls", |line: Line, segment: Segment| Datum::Float8(lines::segment_closest_to_line(segment, line)?.1);
    "dist_sl", |segment: Segment, line: Line| Datum::Float8(lines::segment_closest_to_line(segment, line)?.1);
    "close_ls", |line: Line, segment: Segment| close_line(line, segment)?;
    // Segments.
    "lseg_eq", |a: Segment, b: Segment| Datum::Bool(same_ends(a, b));
    "lseg_ne", |a: Segment, b: Segment| Datum::Bool(!same_ends(a, b));
    "lseg_lt", |a: Segment, b: Segment| Datum::Bool(lt(lines::length(a)?, lines::length(b)?));
    "lseg_le", |a: Segment, b: Segment| Datum::Bool(le(lines::length(a)?, lines::length(b)?));
    "lseg_gt", |a: Segment, b: Segment| Datum::Bool(gt(lines::length(a)?, lines::length(b)?));
    "lseg_ge", |a: Segment, b: Segment| Datum::Bool(ge(lines::length(a)?, lines::length(b)?));
    "lseg_length", |a: Segment| Datum::Float8(lines::length(a)?);
    "length(lseg)", |a: Segment| Datum::Float8(lines::length(a)?);
    "lseg_center", |a: Segment| point(points::middle(a[0], a[1])?);
    "point(lseg)", |a: Segment| point(points::middle(a[0], a[1])?);
    "lseg_parallel", |a: Segment, b: Segment| Datum::Bool(eq(lines::slope(a)?, lines::slope(b)?));
    "isparallel(lseg,lseg)", |a: Segment, b: Segment| Datum::Bool(eq(lines::slope(a)?, lines::slope(b)?));
    "lseg_perp", |a: Segment, b: Segment| Datum::Bool(eq(lines::slope(a)?, points::inverse_slope(b[0], b[1])?));
    "isperp(lseg,lseg)", |a: Segment, b: Segment| {
        Datum::Bool(eq(lines::slope(a)?, points::inverse_slope(b[0], b[1])?))
    };
    "lseg_vertical", |a: Segment| Datum::Bool(eq(a[0].x, a[1].x));
    "isvertical(lseg)", |a: Segment| Datum::Bool(eq(a[0].x, a[1].x));
    "lseg_horizontal", |a: Segment| Datum::Bool(eq(a[0].y, a[1].y));
    "ishorizontal(lseg)", |a: Segment| Datum::Bool(eq(a[0].y, a[1].y));
    "lseg_intersect", |a: Segment, b: Segment| Datum::Bool(lines::segments_meet(a, b)?.is_some());
    "lseg_interpt", |a: Segment, b: Segment| optional_point(lines::segments_meet(a, b)?);
    "lseg_distance", |a: Segment, b: Segment| Datum::Float8(lines::segment_closest_to_segment(a, b)?.1);
    "inter_sl", |a: Segment, line: Line| Datum::Bool(lines::segment_meets_line(a, line)?.is_some());
    "inter_sb", |a: Segment, b: BoxArgument| Datum::Bool(boxes::meets_segment(b.0, a)?);
    "on_sl", |a: Segment, line: Line| Datum::Bool(lines::line_has(line, a[0])? && lines::line_has(line, a[1])?);
    "on_sb", |a: Segment, b: BoxArgument| Datum::Bool(boxes::has(b.0, a[0]) && boxes::has(b.0, a[1]));
    "close_lseg", |a: Segment, b: Segment| close_segments(a, b)?;
    "close_sb", |a: Segment, b: BoxArgument| closest(boxes::closest_to_segment(b.0, a)?);
    "dist_sb", |a: Segment, b: BoxArgument| Datum::Float8(boxes::closest_to_segment(b.0, a)?.1);
    "dist_bs", |b: BoxArgument, a: Segment| Datum::Float8(boxes::closest_to_segment(b.0, a)?.1);
    // Boxes.
    "box_same", |a: BoxArgument, b: BoxArgument| Datum::Bool(same_ends(a.0, b.0));
    "box_eq", |a: BoxArgument, b: BoxArgument| Datum::Bool(eq(boxes::area(a.0)?, boxes::area(b.0)?));
    "box_lt", |a: BoxArgument, b: BoxArgument| Datum::Bool(lt(boxes::area(a.0)?, boxes::area(b.0)?));
    "box_le", |a: BoxArgument, b: BoxArgument| Datum::Bool(le(boxes::area(a.0)?, boxes::area(b.0)?));
    "box_gt", |a: BoxArgument, b: BoxArgument| Datum::Bool(gt(boxes::area(a.0)?, boxes::area(b.0)?));
    "box_ge", |a: BoxArgument, b: BoxArgument| Datum::Bool(ge(boxes::area(a.0)?, boxes::area(b.0)?));
    "box_overlap", |a: BoxArgument, b: BoxArgument| Datum::Bool(boxes::overlap(a.0, b.0));
    "box_left", |a: BoxArgument, b: BoxArgument| Datum::Bool(places::left(a.0, b.0));
    "box_overleft", |a: BoxArgument, b: BoxArgument| Datum::Bool(places::overleft(a.0, b.0));
    "box_right", |a: BoxArgument, b: BoxArgument| Datum::Bool(places::right(a.0, b.0));
    "box_overright", |a: BoxArgument, b: BoxArgument| Datum::Bool(places::overright(a.0, b.0));
    "box_below", |a: BoxArgument, b: BoxArgument| Datum::Bool(places::below(a.0, b.0));
    "box_overbelow", |a: BoxArgument, b: BoxArgument| Datum::Bool(places::overbelow(a.0, b.0));
    "box_above", |a: BoxArgument, b: BoxArgument| Datum::Bool(places::above(a.0, b.0));
    "box_overabove", |a: BoxArgument, b: BoxArgument| Datum::Bool(places::overabove(a.0, b.0));
    "box_below_eq", |a: BoxArgument, b: BoxArgument| Datum::Bool(le(a.0[0].y, b.0[1].y));
    "box_above_eq", |a: BoxArgument, b: BoxArgument| Datum::Bool(ge(a.0[1].y, b.0[0].y));
    "box_contain", |a: BoxArgument, b: BoxArgument| Datum::Bool(boxes::contains(a.0, b.0));
    "box_contained", |a: BoxArgument, b: BoxArgument| Datum::Bool(boxes::contains(b.0, a.0));
    "box_contain_pt", |a: BoxArgument, b: Point| Datum::Bool(boxes::has(a.0, b));
    "area(box)", |a: BoxArgument| Datum::Float8(boxes::area(a.0)?);
    "width", |a: BoxArgument| Datum::Float8(sub(a.0[0].x, a.0[1].x)?);
    "height", |a: BoxArgument| Datum::Float8(sub(a.0[0].y, a.0[1].y)?);
    "box_center", |a: BoxArgument| point(boxes::center(a.0)?);
    "center(box)", |a: BoxArgument| point(boxes::center(a.0)?);
    "point(box)", |a: BoxArgument| point(boxes::center(a.0)?);
    "box_distance", |a: BoxArgument, b: BoxArgument| {
        Datum::Float8(points::distance(boxes::center(a.0)?, boxes::center(b.0)?)?)
    };
    "box_intersect", |a: BoxArgument, b: BoxArgument| {
        boxes::intersection(a.0, b.0).map_or(Datum::Null, |corners| geometry(Geometry::Box(corners)))
    };
    "bound_box", |a: BoxArgument, b: BoxArgument| geometry(Geometry::Box(boxes::hull(a.0, b.0)));
    "diagonal", |a: BoxArgument| geometry(Geometry::Segment(a.0));
    "lseg(box)", |a: BoxArgument| geometry(Geometry::Segment(a.0));
    "box_add", |a: BoxArgument, by: Point| geometry(Geometry::Box([points::sum(a.0[0], by)?, points::sum(a.0[1], by)?]));
    "box_sub", |a: BoxArgument, by: Point| {
        geometry(Geometry::Box([points::difference(a.0[0], by)?, points::difference(a.0[1], by)?]))
    };
    "box_mul", |a: BoxArgument, by: Point| {
        geometry(Geometry::Box(boxes::of_corners(points::product(a.0[0], by)?, points::product(a.0[1], by)?)))
    };
    "box_div", |a: BoxArgument, by: Point| {
        geometry(Geometry::Box(boxes::of_corners(points::quotient(a.0[0], by)?, points::quotient(a.0[1], by)?)))
    };
    "circle(box)", |a: BoxArgument| {
        let center = boxes::center(a.0)?;
        geometry(Geometry::Circle(center, points::distance(center, a.0[0])?))
    };
    "polygon(box)", |a: BoxArgument| geometry(Geometry::Polygon(boxes::polygon(a.0)));
    // Paths.
    "area(path)", |path: Path<'_>| {
        if path.closed { Datum::Float8(polygons::area(path.points)?) } else { Datum::Null }
    };
    "isclosed", |path: Path<'_>| Datum::Bool(path.closed);
    "isopen", |path: Path<'_>| Datum::Bool(!path.closed);
    "pclose", |path: Path<'_>| geometry(Geometry::Path { closed: true, points: path.points.into() });
    "popen", |path: Path<'_>| geometry(Geometry::Path { closed: false, points: path.points.into() });
    "npoints(path)", |path: Path<'_>| Datum::Int4(path.points.len() as i32);
    "path_npoints", |path: Path<'_>| Datum::Int4(path.points.len() as i32);
    "path_length", |path: Path<'_>| Datum::Float8(path_length(path)?);
    "length(path)", |path: Path<'_>| Datum::Float8(path_length(path)?);
    "path_n_eq", |a: Path<'_>, b: Path<'_>| Datum::Bool(a.points.len() == b.points.len());
    "path_n_lt", |a: Path<'_>, b: Path<'_>| Datum::Bool(a.points.len() < b.points.len());
    "path_n_le", |a: Path<'_>, b: Path<'_>| Datum::Bool(a.points.len() <= b.points.len());
    "path_n_gt", |a: Path<'_>, b: Path<'_>| Datum::Bool(a.points.len() > b.points.len());
    "path_n_ge", |a: Path<'_>, b: Path<'_>| Datum::Bool(a.points.len() >= b.points.len());
    "path_add", |a: Path<'_>, b: Path<'_>| {
        let joined = || Geometry::Path { closed: false, points: a.points.iter().chain(b.points).copied().collect() };
        if a.closed || b.closed { Datum::Null } else { geometry(joined()) }
    };
    "path_add_pt", |path: Path<'_>, by: Point| moved(path, |one| points::sum(one, by))?;
    "path_sub_pt", |path: Path<'_>, by: Point| moved(path, |one| points::difference(one, by))?;
    "path_mul_pt", |path: Path<'_>, by: Point| moved(path, |one| points::product(one, by))?;
    "path_div_pt", |path: Path<'_>, by: Point| moved(path, |one| points::quotient(one, by))?;
    "path_contain_pt", |path: Path<'_>, a: Point| Datum::Bool(path_has(path, a)?);
    "path_inter", |a: Path<'_>, b: Path<'_>| Datum::Bool(paths_meet(a, b)?);
    "path_distance", |a: Path<'_>, b: Path<'_>| {
        let distance = polygons::distance(segments(a), || segments(b))?;
        distance.map_or(Datum::Null, Datum::Float8)
    };
    "polygon(path)", |path: Path<'_>| {
        if !path.closed {
            let text = "open path cannot be converted to polygon";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
        }
        geometry(Geometry::Polygon(path.points.into()))
    };
    // Polygons.
    "poly_same", |a: Polygon<'_>, b: Polygon<'_>| Datum::Bool(polygons::same(a, b));
    "poly_overlap", |a: Polygon<'_>, b: Polygon<'_>| Datum::Bool(polygons::overlap(a, b)?);
    "poly_contain", |a: Polygon<'_>, b: Polygon<'_>| Datum::Bool(polygons::contains(a, b)?);
    "poly_contained", |a: Polygon<'_>, b: Polygon<'_>| Datum::Bool(polygons::contains(b, a)?);
    "poly_contain_pt", |a: Polygon<'_>, b: Point| Datum::Bool(polygons::has(a, b)?);
    "poly_left", |a: Polygon<'_>, b: Polygon<'_>| Datum::Bool(boxes::bounds(a)[0].x < boxes::bounds(b)[1].x);
    "poly_overleft", |a: Polygon<'_>, b: Polygon<'_>| Datum::Bool(boxes::bounds(a)[0].x <= boxes::bounds(b)[0].x);
    "poly_right", |a: Polygon<'_>, b: Polygon<'_>| Datum::Bool(boxes::bounds(a)[1].x > boxes::bounds(b)[0].x);
    "poly_overright", |a: Polygon<'_>, b: Polygon<'_>| Datum::Bool(boxes::bounds(a)[1].x >= boxes::bounds(b)[1].x);
    "poly_below", |a: Polygon<'_>, b: Polygon<'_>| Datum::Bool(boxes::bounds(a)[0].y < boxes::bounds(b)[1].y);
    "poly_overbelow", |a: Polygon<'_>, b: Polygon<'_>| Datum::Bool(boxes::bounds(a)[0].y <= boxes::bounds(b)[0].y);
    "poly_above", |a: Polygon<'_>, b: Polygon<'_>| Datum::Bool(boxes::bounds(a)[1].y > boxes::bounds(b)[0].y);
    "poly_overabove", |a: Polygon<'_>, b: Polygon<'_>| Datum::Bool(boxes::bounds(a)[1].y >= boxes::bounds(b)[1].y);
    "poly_distance", |a: Polygon<'_>, b: Polygon<'_>| Datum::Float8(polygons::distance_of_polygons(a, b)?);
    "poly_npoints", |a: Polygon<'_>| Datum::Int4(a.len() as i32);
    "npoints(polygon)", |a: Polygon<'_>| Datum::Int4(a.len() as i32);
    "poly_center", |a: Polygon<'_>| point(polygons::circle(a)?.0);
    "point(polygon)", |a: Polygon<'_>| point(polygons::circle(a)?.0);
    "box(polygon)", |a: Polygon<'_>| geometry(Geometry::Box(boxes::bounds(a)));
    "path", |a: Polygon<'_>| geometry(Geometry::Path { closed: true, points: a.into() });
    "circle(polygon)", |a: Polygon<'_>| {
        let (center, radius) = polygons::circle(a)?;
        geometry(Geometry::Circle(center, radius))
    };
    "dist_polyc", |a: Polygon<'_>, circle: Circle| Datum::Float8(polygon_circle_distance(a, circle)?);
    "dist_cpoly", |circle: Circle, a: Polygon<'_>| Datum::Float8(polygon_circle_distance(a, circle)?);
    // Circles.
    "circle_same", |a: Circle, b: Circle| {
        Datum::Bool(((a.1.is_nan() && b.1.is_nan()) || eq(a.1, b.1)) && points::same(a.0, b.0))
    };
    "circle_eq", |a: Circle, b: Circle| Datum::Bool(eq(circle_area(a)?, circle_area(b)?));
    "circle_ne", |a: Circle, b: Circle| Datum::Bool(ne(circle_area(a)?, circle_area(b)?));
    "circle_lt", |a: Circle, b: Circle| Datum::Bool(lt(circle_area(a)?, circle_area(b)?));
    "circle_le", |a: Circle, b: Circle| Datum::Bool(le(circle_area(a)?, circle_area(b)?));
    "circle_gt", |a: Circle, b: Circle| Datum::Bool(gt(circle_area(a)?, circle_area(b)?));
    "circle_ge", |a: Circle, b: Circle| Datum::Bool(ge(circle_area(a)?, circle_area(b)?));
    "circle_overlap", |a: Circle, b: Circle| Datum::Bool(le(points::distance(a.0, b.0)?, add(a.1, b.1)?));
    "circle_left", |a: Circle, b: Circle| Datum::Bool(lt(add(a.0.x, a.1)?, sub(b.0.x, b.1)?));
    "circle_overleft", |a: Circle, b: Circle| Datum::Bool(le(add(a.0.x, a.1)?, add(b.0.x, b.1)?));
    "circle_right", |a: Circle, b: Circle| Datum::Bool(gt(sub(a.0.x, a.1)?, add(b.0.x, b.1)?));
    "circle_overright", |a: Circle, b: Circle| Datum::Bool(ge(sub(a.0.x, a.1)?, sub(b.0.x, b.1)?));
    "circle_below", |a: Circle, b: Circle| Datum::Bool(lt(add(a.0.y, a.1)?, sub(b.0.y, b.1)?));
    "circle_overbelow", |a: Circle, b: Circle| Datum::Bool(le(add(a.0.y, a.1)?, add(b.0.y, b.1)?));
    "circle_above", |a: Circle, b: Circle| Datum::Bool(gt(sub(a.0.y, a.1)?, add(b.0.y, b.1)?));
    "circle_overabove", |a: Circle, b: Circle| Datum::Bool(ge(sub(a.0.y, a.1)?, sub(b.0.y, b.1)?));
    "circle_contain", |a: Circle, b: Circle| Datum::Bool(le(points::distance(a.0, b.0)?, sub(a.1, b.1)?));
    "circle_contained", |a: Circle, b: Circle| Datum::Bool(le(points::distance(a.0, b.0)?, sub(b.1, a.1)?));
    "circle_contain_pt", |a: Circle, b: Point| Datum::Bool(points::distance(a.0, b)? <= a.1);
    "circle_add_pt", |a: Circle, by: Point| geometry(Geometry::Circle(points::sum(a.0, by)?, a.1));
    "circle_sub_pt", |a: Circle, by: Point| geometry(Geometry::Circle(points::difference(a.0, by)?, a.1));
    "circle_mul_pt", |a: Circle, by: Point| {
        geometry(Geometry::Circle(points::product(a.0, by)?, mul(a.1, hypot(by.x, by.y)?)?))
    };
    "circle_div_pt", |a: Circle, by: Point| {
        geometry(Geometry::Circle(points::quotient(a.0, by)?, div(a.1, hypot(by.x, by.y)?)?))
    };
    "circle_distance", |a: Circle, b: Circle| {
        Datum::Float8(not_negative(sub(points::distance(a.0, b.0)?, add(a.1, b.1)?)?))
    };
    "area(circle)", |a: Circle| Datum::Float8(circle_area(a)?);
    "diameter", |a: Circle| Datum::Float8(mul(a.1, 2.0)?);
    "radius", |a: Circle| Datum::Float8(a.1);
    "circle_center", |a: Circle| point(a.0);
    "center(circle)", |a: Circle| point(a.0);
    "point(circle)", |a: Circle| point(a.0);
    "polygon(int4,circle)", |count: i32, a: Circle| {
        geometry(Geometry::Polygon(polygons::of_circle(count, a.0, a.1, ctx)?))
    };
    "polygon(circle)", |a: Circle| geometry(Geometry::Polygon(polygons::of_circle(12, a.0, a.1, ctx)?));
    "box(circle)", |a: Circle| geometry(Geometry::Box(boxes::of_circle(a.0, a.1)?));
};

fn line_through(a: Point, b: Point) -> Result<Line> {
    if points::same(a, b) {
        let text = "invalid line specification: must be two distinct points";
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
    }
    lines::line_through(a, b)
}

fn same_ends(left: [Point; 2], right: [Point; 2]) -> bool {
    points::same(left[0], right[0]) && points::same(left[1], right[1])
}

/// The point of a segment that is next to a line; NULL if they are parallel.
fn close_line<'a>(line: Line, segment: Segment) -> Result<Datum<'a>> {
    if lines::slope(segment)? == lines::line_slope(line)? {
        return Ok(Datum::Null);
    }
    Ok(closest(lines::segment_closest_to_line(segment, line)?))
}

/// The point of the second segment that is next to the first one; NULL if they are parallel.
fn close_segments<'a>(left: Segment, right: Segment) -> Result<Datum<'a>> {
    if lines::slope(left)? == lines::slope(right)? {
        return Ok(Datum::Null);
    }
    Ok(closest(lines::segment_closest_to_segment(right, left)?))
}

fn segments(path: Path<'_>) -> impl Iterator<Item = Segment> + '_ {
    polygons::segments(path.points, path.closed)
}

fn path_has(path: Path<'_>, place: Point) -> Result<bool> {
    if path.closed { polygons::has(path.points, place) } else { polygons::path_has(path.points, place) }
}

fn path_distance(path: Path<'_>, place: Point) -> Result<f64> {
    polygons::distance_to_point(segments(path), place)
}

fn path_length(path: Path<'_>) -> Result<f64> {
    let mut length = 0.0;
    for segment in segments(path) {
        length = add(length, lines::length(segment)?)?;
    }
    Ok(length)
}

fn paths_meet(left: Path<'_>, right: Path<'_>) -> Result<bool> {
    if !boxes::overlap(boxes::bounds(left.points), boxes::bounds(right.points)) {
        return Ok(false);
    }
    for one in segments(left) {
        for other in segments(right) {
            if lines::segments_meet(one, other)?.is_some() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn moved<'a>(path: Path<'_>, movement: impl Fn(Point) -> Result<Point>) -> Result<Datum<'a>> {
    let points = path.points.iter().map(|one| movement(*one)).collect::<Result<_>>()?;
    Ok(geometry(Geometry::Path { closed: path.closed, points }))
}

fn polygon_distance(list: Polygon<'_>, place: Point) -> Result<f64> {
    if polygons::has(list, place)? { Ok(0.0) } else { polygons::distance_to_point(polygons::sides(list), place) }
}

fn not_negative(distance: f64) -> f64 {
    if distance < 0.0 { 0.0 } else { distance }
}

fn circle_distance(circle: Circle, place: Point) -> Result<f64> {
    Ok(not_negative(sub(points::distance(circle.0, place)?, circle.1)?))
}

fn polygon_circle_distance(list: Polygon<'_>, circle: Circle) -> Result<f64> {
    Ok(not_negative(sub(polygon_distance(list, circle.0)?, circle.1)?))
}

fn circle_area(circle: Circle) -> Result<f64> {
    mul(mul(circle.1, circle.1)?, PI)
}
