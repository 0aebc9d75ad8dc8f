//! Addresses of networks and of their hardware: `inet`, `cidr`, `macaddr`, `macaddr8`.

mod functions;
mod mac;
mod text;

use catalog::TypeId;

use crate::registry::{Family, Function, TypeSupport};

pub(crate) static FAMILY: Family = Family { types: TYPES, functions: FUNCTIONS, sets: &[], aggregates: &[] };

const CIDR: TypeId = TypeId(650);
const INET: TypeId = TypeId(869);
const MACADDR: TypeId = TypeId(829);
const MACADDR8: TypeId = TypeId(774);

const NETWORK: TypeSupport = TypeSupport { input: text::input, output: text::output, compare: None };

const TYPES: &[(TypeId, TypeSupport)] = &[
    (INET, NETWORK),
    (CIDR, NETWORK),
    (MACADDR, TypeSupport { input: mac::macaddr_input, output: mac::macaddr_output, compare: None }),
    (MACADDR8, TypeSupport { input: mac::macaddr8_input, output: mac::macaddr8_output, compare: None }),
];

const FUNCTIONS: &[(&str, Function)] = &[
    ("network_eq", functions::network_eq),
    ("network_ne", functions::network_ne),
    ("network_lt", functions::network_lt),
    ("network_le", functions::network_le),
    ("network_gt", functions::network_gt),
    ("network_ge", functions::network_ge),
    ("network_cmp", functions::network_cmp),
    ("network_larger", functions::network_larger),
    ("network_smaller", functions::network_smaller),
    ("network_sub", functions::network_sub),
    ("network_subeq", functions::network_subeq),
    ("network_sup", functions::network_sup),
    ("network_supeq", functions::network_supeq),
    ("network_overlap", functions::network_overlap),
    ("abbrev(inet)", text::abbrev_inet),
    ("abbrev(cidr)", text::abbrev_cidr),
    ("host", text::host),
    ("text(inet)", text::text),
    ("broadcast", functions::broadcast),
    ("netmask", functions::netmask),
    ("hostmask", functions::hostmask),
    ("network", functions::network),
    ("cidr", functions::network),
    ("masklen", functions::masklen),
    ("family", functions::family),
    ("set_masklen(inet,int4)", functions::set_masklen_inet),
    ("set_masklen(cidr,int4)", functions::set_masklen_cidr),
    ("inet_same_family", functions::inet_same_family),
    ("inet_merge", functions::inet_merge),
    ("inetnot", functions::inetnot),
    ("inetand", functions::inetand),
    ("inetor", functions::inetor),
    ("inetpl", functions::inetpl),
    ("int8pl_inet", functions::int8pl_inet),
    ("inetmi_int8", functions::inetmi_int8),
    ("inetmi", functions::inetmi),
    ("macaddr", mac::macaddr),
    ("macaddr8", mac::macaddr8),
    ("macaddr8_set7bit", mac::macaddr8_set7bit),
    ("trunc(macaddr)", mac::macaddr_trunc),
    ("trunc(macaddr8)", mac::macaddr8_trunc),
    ("macaddr_not", mac::macaddr_not),
    ("macaddr_and", mac::mac_and),
    ("macaddr_or", mac::mac_or),
    ("macaddr_eq", mac::mac_eq),
    ("macaddr_ne", mac::mac_ne),
    ("macaddr_lt", mac::mac_lt),
    ("macaddr_le", mac::mac_le),
    ("macaddr_gt", mac::mac_gt),
    ("macaddr_ge", mac::mac_ge),
    ("macaddr_cmp", mac::mac_cmp),
    ("macaddr8_not", mac::macaddr8_not),
    ("macaddr8_and", mac::mac_and),
    ("macaddr8_or", mac::mac_or),
    ("macaddr8_eq", mac::mac_eq),
    ("macaddr8_ne", mac::mac_ne),
    ("macaddr8_lt", mac::mac_lt),
    ("macaddr8_le", mac::mac_le),
    ("macaddr8_gt", mac::mac_gt),
    ("macaddr8_ge", mac::mac_ge),
    ("macaddr8_cmp", mac::mac_cmp),
];
