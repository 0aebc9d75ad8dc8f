//! Geometric types: `point`, `line`, `lseg`, `box`, `path`, `polygon`, `circle`.

mod boxes;
mod float;
mod functions;
mod lines;
mod points;
mod polygons;
mod shapes;
mod text;

use catalog::TypeId;

pub(crate) use boxes::of_corners as box_of_corners;

use crate::registry::{Family, TypeSupport};

pub(crate) static FAMILY: Family = Family { types: TYPES, functions: functions::FUNCTIONS, sets: &[], aggregates: &[] };

const POINT: TypeId = TypeId::POINT;
const LSEG: TypeId = TypeId(601);
const PATH: TypeId = TypeId(602);
const BOX: TypeId = TypeId(603);
const POLYGON: TypeId = TypeId(604);
const LINE: TypeId = TypeId(628);
const CIRCLE: TypeId = TypeId(718);

// No geometric type has an order.
const GEOMETRY: TypeSupport = TypeSupport { input: text::input, output: text::output, compare: None };

const TYPES: &[(TypeId, TypeSupport)] = &[
    (POINT, GEOMETRY),
    (LSEG, GEOMETRY),
    (PATH, GEOMETRY),
    (BOX, GEOMETRY),
    (POLYGON, GEOMETRY),
    (LINE, GEOMETRY),
    (CIRCLE, GEOMETRY),
];
