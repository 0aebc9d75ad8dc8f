//! Abbreviations of time zones: PostgreSQL's set `Default`.
//!
//! An abbreviation stands either for a constant offset or for the offset that a zone had when it last used it.

/// The meaning of an abbreviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abbreviation {
    /// A constant offset in seconds east of UTC, and whether it is daylight-saving time.
    Fixed(i32, bool),
    /// The offset depends on the date: the zone that uses the abbreviation.
    Dynamic(&'static str),
}

/// The abbreviation of a name in any case.
pub(super) fn abbreviation(name: &str) -> Option<Abbreviation> {
    let mut upper = [0; NAME_BYTES_MAX];
    let upper = upper.get_mut(..name.len())?;
    upper.copy_from_slice(name.as_bytes());
    upper.make_ascii_uppercase();
    let fixed = FIXED.binary_search_by(|(known, ..)| known.as_bytes().cmp(upper));
    if let Ok(at) = fixed {
        return Some(Abbreviation::Fixed(FIXED[at].1, FIXED[at].2));
    }
    let dynamic = DYNAMIC.binary_search_by(|(known, _)| known.as_bytes().cmp(upper));
    dynamic.ok().map(|at| Abbreviation::Dynamic(DYNAMIC[at].1))
}

/// The name of an abbreviation as zones write it, if its offset depends on the date.
pub(super) fn dynamic_name(name: &str) -> Option<&'static str> {
    DYNAMIC.iter().map(|(known, _)| *known).find(|known| known.eq_ignore_ascii_case(name))
}

/// Abbreviations with a constant offset, in the order of their names: name, seconds east of UTC, and whether it is
/// daylight-saving time.
#[must_use]
pub fn zone_abbreviations() -> &'static [(&'static str, i32, bool)] {
    FIXED
}

/// Length of the longest name.
const NAME_BYTES_MAX: usize = 6;

/// Name, seconds east of UTC, daylight-saving time; in the order of the names.
#[rustfmt::skip]
const FIXED: &[(&str, i32, bool)] = &[
    ("ACDT", 37800, true), ("ACSST", 37800, true), ("ACST", 34200, false), ("ACT", -18000, false),
    ("ACWST", 31500, false), ("ADT", -10800, true), ("AEDT", 39600, true), ("AESST", 39600, true),
    ("AEST", 36000, false), ("AFT", 16200, false), ("AKDT", -28800, true), ("AKST", -32400, false),
    ("ALMST", 25200, true), ("ALMT", 21600, false), ("AMT", -14400, false), ("AST", -14400, false),
    ("AWSST", 32400, true), ("AWST", 28800, false), ("AZOST", 0, true), ("AZOT", -3600, false), ("BDST", 7200, true),
    ("BDT", 21600, false), ("BNT", 28800, false), ("BORT", 28800, false), ("BOT", -14400, false),
    ("BRA", -10800, false), ("BRST", -7200, true), ("BRT", -10800, false), ("BST", 3600, true), ("BTT", 21600, false),
    ("CADT", 37800, true), ("CAST", 34200, false), ("CCT", 28800, false), ("CDT", -18000, true), ("CEST", 7200, true),
    ("CET", 3600, false), ("CETDST", 7200, true), ("CHADT", 49500, true), ("CHAST", 45900, false),
    ("CHUT", 36000, false), ("CLST", -10800, true), ("COT", -18000, false), ("CST", -21600, false),
    ("CXT", 25200, false), ("DDUT", 36000, false), ("EAT", 10800, false), ("EDT", -14400, true),
    ("EEST", 10800, true), ("EET", 7200, false), ("EETDST", 10800, true), ("EGST", 0, true), ("EGT", -3600, false),
    ("EST", -18000, false), ("FET", 10800, false), ("FJST", 46800, true), ("FJT", 43200, false),
    ("FNST", -3600, true), ("FNT", -7200, false), ("GALT", -21600, false), ("GAMT", -32400, false),
    ("GFT", -10800, false), ("GILT", 43200, false), ("GMT", 0, false), ("HKT", 28800, false), ("HST", -36000, false),
    ("ICT", 25200, false), ("IDT", 10800, true), ("IRT", 12600, false), ("IST", 7200, false), ("JAYT", 32400, false),
    ("JST", 32400, false), ("KDT", 36000, true), ("KGST", 21600, true), ("KST", 32400, false), ("LHST", 37800, false),
    ("LIGT", 36000, false), ("MART", -34200, false), ("MDT", -21600, true), ("MEST", 7200, true),
    ("MESZ", 7200, true), ("MET", 3600, false), ("METDST", 7200, true), ("MEZ", 3600, false), ("MHT", 43200, false),
    ("MMT", 23400, false), ("MPT", 36000, false), ("MSD", 14400, true), ("MST", -25200, false), ("MUST", 18000, true),
    ("MUT", 14400, false), ("MVT", 18000, false), ("MYT", 28800, false), ("NDT", -9000, true), ("NFT", -12600, false),
    ("NPT", 20700, false), ("NST", -12600, false), ("NZDT", 46800, true), ("NZST", 43200, false),
    ("NZT", 43200, false), ("PDT", -25200, true), ("PET", -18000, false), ("PGT", 36000, false),
    ("PHT", 28800, false), ("PKST", 21600, true), ("PKT", 18000, false), ("PMDT", -7200, true),
    ("PMST", -10800, false), ("PONT", 39600, false), ("PST", -28800, false), ("PWT", 32400, false),
    ("PYST", -10800, true), ("RET", 14400, false), ("SADT", 37800, true), ("SAST", 7200, false),
    ("SCT", 14400, false), ("TAHT", -36000, false), ("TFT", 18000, false), ("TJT", 18000, false),
    ("TOT", 46800, false), ("TRUT", 36000, false), ("TVT", 43200, false), ("UCT", 0, false), ("ULAST", 32400, true),
    ("UT", 0, false), ("UTC", 0, false), ("UYST", -7200, true), ("UYT", -10800, false), ("UZST", 21600, true),
    ("UZT", 18000, false), ("VUT", 39600, false), ("WADT", 28800, true), ("WAKT", 43200, false),
    ("WAST", 25200, false), ("WAT", 3600, false), ("WDT", 32400, true), ("WET", 0, false), ("WETDST", 3600, true),
    ("WFT", 43200, false), ("WGST", -7200, true), ("WGT", -10800, false), ("XJT", 21600, false),
    ("YAPT", 36000, false), ("YEKST", 21600, true), ("Z", 0, false), ("ZULU", 0, false),
];

/// Name and zone, in the order of the names.
#[rustfmt::skip]
const DYNAMIC: &[(&str, &str)] = &[
    ("AMST", "Asia/Yerevan"), ("ANAST", "Asia/Anadyr"), ("ANAT", "Asia/Anadyr"),
    ("ARST", "America/Argentina/Buenos_Aires"), ("ART", "America/Argentina/Buenos_Aires"), ("AZST", "Asia/Baku"),
    ("AZT", "Asia/Baku"), ("CKT", "Pacific/Rarotonga"), ("CLT", "America/Santiago"), ("DAVT", "Antarctica/Davis"),
    ("EASST", "Pacific/Easter"), ("EAST", "Pacific/Easter"), ("FKST", "Atlantic/Stanley"),
    ("FKT", "Atlantic/Stanley"), ("GEST", "Asia/Tbilisi"), ("GET", "Asia/Tbilisi"), ("GYT", "America/Guyana"),
    ("IOT", "Indian/Chagos"), ("IRKST", "Asia/Irkutsk"), ("IRKT", "Asia/Irkutsk"), ("KGT", "Asia/Bishkek"),
    ("KOST", "Pacific/Kosrae"), ("KRAST", "Asia/Krasnoyarsk"), ("KRAT", "Asia/Krasnoyarsk"),
    ("LHDT", "Australia/Lord_Howe"), ("LINT", "Pacific/Kiritimati"), ("LKT", "Asia/Colombo"),
    ("MAGST", "Asia/Magadan"), ("MAGT", "Asia/Magadan"), ("MAWT", "Antarctica/Mawson"), ("MSK", "Europe/Moscow"),
    ("NOVST", "Asia/Novosibirsk"), ("NOVT", "Asia/Novosibirsk"), ("NUT", "Pacific/Niue"), ("OMSST", "Asia/Omsk"),
    ("OMST", "Asia/Omsk"), ("PETST", "Asia/Kamchatka"), ("PETT", "Asia/Kamchatka"), ("PYT", "America/Asuncion"),
    ("SGT", "Asia/Singapore"), ("TKT", "Pacific/Fakaofo"), ("TMT", "Asia/Ashgabat"), ("ULAT", "Asia/Ulaanbaatar"),
    ("VET", "America/Caracas"), ("VLAST", "Asia/Vladivostok"), ("VLAT", "Asia/Vladivostok"),
    ("VOLT", "Europe/Volgograd"), ("YAKST", "Asia/Yakutsk"), ("YAKT", "Asia/Yakutsk"), ("YEKT", "Asia/Yekaterinburg"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_abbreviation_is_found() {
        for (name, offset, daylight) in FIXED {
            assert_eq!(abbreviation(&name.to_lowercase()), Some(Abbreviation::Fixed(*offset, *daylight)));
        }
        for (name, zone) in DYNAMIC {
            assert_eq!(abbreviation(name), Some(Abbreviation::Dynamic(zone)));
        }
        assert_eq!(abbreviation("x"), None);
    }
}
