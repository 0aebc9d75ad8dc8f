//! Workbooks that the crate makes, that are made by hand, and that are made to do harm.

use std::io::{Cursor, Write};

use model::Result;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::{Cell, RowWriter, Workbook, Writer};

const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";

/// Cells of all rows with the places of their rows.
fn rows(body: &[u8]) -> Result<Vec<(String, bool, Vec<Cell<'static>>)>> {
    let mut all = Vec::new();
    Workbook::open(body, |_| Ok(()))?.rows(|row| {
        let end = row.cells.last().map_or(0, |(column, _)| column + 1);
        let cells = (0..end).map(|column| owned(row.cell(column))).collect();
        all.push((row.place(0), row.is_first, cells));
        Ok(())
    })?;
    Ok(all)
}

fn owned(cell: &Cell<'_>) -> Cell<'static> {
    match cell {
        Cell::Empty => Cell::Empty,
        Cell::Text(text) => self::text(text),
        Cell::Number(number) => Cell::Number(*number),
        Cell::Clock(clock) => Cell::Clock(*clock),
        Cell::Truth(truth) => Cell::Truth(*truth),
        Cell::Failed(error) => Cell::Failed(error.clone()),
    }
}

fn text(text: &str) -> Cell<'static> {
    Cell::Text(text.to_owned().into())
}

fn zipped(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in parts {
        zip.start_file(*name, SimpleFileOptions::default().compression_method(CompressionMethod::Deflated)).unwrap();
        zip.write_all(content.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// A workbook by hand: a sheet, its shared strings, and the attributes of `workbookPr`.
fn workbook(sheet: &str, strings: &str, properties: &str) -> Vec<u8> {
    let office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let relation = |id: &str, kind: &str, target: &str| {
        format!("<Relationship Id=\"{id}\" Type=\"{office}/{kind}\" Target=\"{target}\"/>")
    };
    let relations = |content: String| format!("<Relationships>{content}</Relationships>");
    let worksheet = format!("<worksheet xmlns=\"{MAIN}\"><sheetData>{sheet}</sheetData></worksheet>");
    let hidden = format!("<worksheet xmlns=\"{MAIN}\"><sheetData><row><c><v>1</v></c></row></sheetData></worksheet>");
    let list = format!(
        "<workbook xmlns=\"{MAIN}\" xmlns:r=\"{office}\"><workbookPr {properties}/><sheets>\
         <sheet name=\"My data\" sheetId=\"1\" r:id=\"a\"/><sheet name=\"Notes\" sheetId=\"2\" state=\"hidden\" r:id=\"b\"/>\
         </sheets></workbook>"
    );
    let styles = format!(
        "<styleSheet xmlns=\"{MAIN}\"><cellXfs><xf numFmtId=\"0\"/><xf numFmtId=\"22\"/><xf numFmtId=\"46\"/></cellXfs></styleSheet>"
    );
    zipped(&[
        ("_rels/.rels", &relations(relation("r", "officeDocument", "xl/workbook.xml"))),
        ("xl/workbook.xml", &list),
        (
            "xl/_rels/workbook.xml.rels",
            &relations(
                relation("a", "worksheet", "worksheets/a.xml") + &relation("b", "worksheet", "worksheets/b.xml"),
            ),
        ),
        ("xl/sharedStrings.xml", strings),
        ("xl/styles.xml", &styles),
        ("xl/worksheets/a.xml", &worksheet),
        ("xl/worksheets/b.xml", &hidden),
    ])
}

#[test]
fn every_cell_that_is_written_is_read() {
    let texts = ["x", "<a & \"b\">", "_x0041_ _", "äöü €", "bell \u{7} tab\tend", "]]></row>"];
    let numbers = [0.1, -1e300, 5e-324, 4.0, 123_456_789.0, f64::MAX];
    let clocks = [0, 1_761_445_800_000, 1_761_445_800_001, -2_203_891_200_000, 253_402_300_799_999];
    let mut out = Vec::new();
    let mut row = RowWriter::start(&mut out);
    texts.iter().for_each(|text| row.text(text));
    row.end();
    let mut row = RowWriter::start(&mut out);
    numbers.iter().for_each(|number| row.number(*number));
    row.end();
    let mut row = RowWriter::start(&mut out);
    clocks.iter().for_each(|clock| row.clock(*clock));
    row.end();
    let mut row = RowWriter::start(&mut out);
    [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].iter().for_each(|number| row.number(*number));
    row.empty();
    row.truth(true);
    row.whole(9);
    row.end();
    let mut writer = Writer::new("Data", &["First", "Second"]).unwrap();
    writer.write(&out).unwrap();
    let mut body = writer.take();
    body.extend(writer.finish().unwrap());
    let read = rows(&body).unwrap();
    assert_eq!(read[0], ("Data!A1".to_owned(), true, vec![text("First"), text("Second")]));
    assert_eq!(read[1], ("Data!A2".to_owned(), false, texts.map(text).to_vec()));
    assert_eq!(read[2].2, numbers.map(Cell::Number));
    assert_eq!(read[3].2, clocks.map(Cell::Clock));
    let last = [text("NaN"), text("Infinity"), text("-Infinity"), Cell::Empty, Cell::Truth(true), Cell::Number(9.0)];
    assert_eq!(read[4].2, last);
    assert_eq!(read.len(), 5);
}

#[test]
fn rows_that_a_sheet_has_no_place_for_go_on_in_the_next() {
    for pieces in [1, 2, 7] {
        let mut writer = Writer::with_rows_max("Data", &["Number"], 4).unwrap();
        let mut body = Vec::new();
        for piece in (0..7).collect::<Vec<u8>>().chunks(pieces) {
            let mut out = Vec::new();
            for number in piece {
                let mut row = RowWriter::start(&mut out);
                row.number(f64::from(*number));
                row.end();
            }
            writer.write(&out).unwrap();
            body.extend(writer.take());
        }
        body.extend(writer.finish().unwrap());
        let read = rows(&body).unwrap();
        let places: Vec<&str> = read.iter().map(|(place, ..)| place.as_str()).collect();
        let expected = [
            "Data!A1",
            "Data!A2",
            "Data!A3",
            "Data!A4",
            "'Data 2'!A1",
            "'Data 2'!A2",
            "'Data 2'!A3",
            "'Data 2'!A4",
            "'Data 3'!A1",
            "'Data 3'!A2",
        ];
        assert_eq!(places, expected, "{pieces} rows a piece");
        let numbers = read.iter().filter(|(_, is_first, _)| !is_first).map(|(.., cells)| cells[0].clone());
        assert!(numbers.eq((0..7).map(|number| Cell::Number(f64::from(number)))));
    }
}

#[test]
fn cells_of_other_programs_are_read() {
    let strings = format!(
        "<sst xmlns=\"{MAIN}\" count=\"9\" uniqueCount=\"2\"><si><t> From </t></si><si><r><t>Val</t></r><r><t>ue</t></r></si></sst>"
    );
    let sheet = "<row r=\"3\"><c r=\"B3\" t=\"s\"><v>0</v></c><c r=\"AA3\" t=\"s\"><v>1</v></c></row>\
                 <row r=\"4\"><c r=\"A4\" s=\"1\"/></row>\
                 <row r=\"5\"><c r=\"A5\" s=\"1\"><v>45943.5</v></c><c r=\"B5\"><f>A1*2</f><v>4.5</v></c>\
                 <c r=\"C5\" t=\"b\"><v>1</v></c><c r=\"D5\" t=\"str\"><f>\"\"</f><v></v></c>\
                 <c r=\"E5\" t=\"e\"><v>#N/A</v></c><c r=\"F5\" s=\"2\"><v>1.5</v></c><c r=\"G5\" s=\"1\"><v>0.25</v></c></row>";
    let read = rows(&workbook(sheet, &strings, "")).unwrap();
    assert_eq!(read[0].0, "'My data'!A3");
    assert_eq!((&read[0].2[1], &read[0].2[26]), (&text("From"), &text("Value")));
    let expected = [
        Cell::Clock(1_760_356_800_000),
        Cell::Number(4.5),
        Cell::Truth(true),
        Cell::Empty,
        Cell::Failed("#N/A".to_owned()),
        Cell::Number(1.5),
        Cell::Number(0.25),
    ];
    assert_eq!(read[1], ("'My data'!A5".to_owned(), false, expected.to_vec()));
    assert_eq!(read.len(), 2, "a hidden sheet is not read");
    let sheet = "<row><c s=\"1\"><v>44481.5</v></c></row>";
    let read = rows(&workbook(sheet, &strings, "date1904=\"1\"")).unwrap();
    assert_eq!(read[0].2, [Cell::Clock(1_760_356_800_000)]);
}

#[test]
fn what_cannot_be_read_is_named_with_its_cell() {
    let strings = format!("<sst xmlns=\"{MAIN}\"/>");
    for (sheet, expected) in [
        ("<row r=\"7\"><c r=\"B7\"><f>A1*2</f></c></row>", "'My data'!B7: a formula without a value"),
        (
            "<row r=\"7\"><c r=\"B7\"><v>1</v></c><c r=\"A7\"><v>1</v></c></row>",
            "'My data'!A7: the cell does not follow",
        ),
        ("<row r=\"7\"><c r=\"B7\" t=\"s\"><v>8</v></c></row>", "sheet \"My data\": the workbook cannot be read"),
        ("<row><c r=\"A99999999999\"><v>1</v></c></row>", "has a cell outside of 1048576 rows"),
        ("<row r=\"1\"><c r=\"ZZZZZZZZ1\"><v>1</v></c></row>", "has a cell outside of 1048576 rows"),
        ("<row r=\"7\"><c>", "sheet \"My data\": the workbook cannot be read"),
    ] {
        let error = rows(&workbook(sheet, &strings, "")).unwrap_err();
        assert!(error.to_string().contains(expected), "{sheet}: {error}");
    }
    let row = "<row r=\"2\"><c r=\"C2\" t=\"e\"><v>#DIV/0!</v></c></row>";
    let body = workbook(row, &strings, "");
    let mut refused = String::new();
    Workbook::open(&body, |_| Ok(()))
        .unwrap()
        .rows(|row| {
            refused = row.refused(2, "a number").to_string();
            Ok(())
        })
        .unwrap();
    assert!(refused.contains("'My data'!C2: the error #DIV/0!: expected a number"), "{refused}");
}

#[test]
fn memory_is_reserved_before_anything_is_kept() {
    let strings = format!("<sst xmlns=\"{MAIN}\"><si><t>{}</t></si></sst>", "x".repeat(100_000));
    let body = workbook("<row><c><v>1</v></c></row>", &strings, "");
    let mut reserved = 0;
    Workbook::open(&body, |bytes| {
        reserved = bytes;
        Ok(())
    })
    .unwrap();
    assert!((1_000_000..1_200_000).contains(&reserved), "{reserved}");
    let refused = Workbook::open(&body, |bytes| Err(crate::invalid(format!("{bytes} bytes are too much"))));
    assert!(refused.err().unwrap().to_string().contains("are too much"));
}

#[test]
fn zips_that_grow_without_bounds_are_refused_before_they_do() {
    let sheet = "<row><c><v>1</v></c></row>";
    let refused = |body: &[u8], expected: &str| {
        let error = Workbook::open(body, |_| panic!("reserved")).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused(b"", "expected the zip of an .xlsx file");
    refused(b"\xd0\xcf\x11\xe0 an old workbook", "expected the zip of an .xlsx file");
    refused(b"PK\x03\x04 and nothing else", "is not the zip of a workbook");
    let zeros = "0".repeat(8 << 20);
    let bomb = zipped(&[("xl/media/a.bin", &zeros)]);
    refused(&bomb, "to 8388608 bytes: expected at most 4194304");
    // The zip declares a byte less than there is: in the directory and in the entry.
    let content = "abcdefgh".repeat(500);
    let mut liar = zipped(&[("xl/a.bin", &content)]);
    let declared = 4_000_u32.to_le_bytes();
    let places: Vec<usize> = (0..liar.len() - 4).filter(|at| liar[*at..at + 4] == declared).collect();
    assert_eq!(places.len(), 2);
    places.iter().for_each(|at| liar[*at..at + 4].copy_from_slice(&3_999_u32.to_le_bytes()));
    refused(&liar, "xl/a.bin: ");
    for (strings, expected) in [
        ("<sst uniqueCount=\"99999999999999999999\"><si><t>x</t></si></sst>", "uniqueCount announces more"),
        ("<x:sst\n x:uniqueCount \t=\n'1000' ><si/></x:sst>", "uniqueCount announces more"),
        ("<sst uni\u{1b}(BqueCount=\"1000\"/>", "the control character 0x1b"),
    ] {
        refused(&workbook(sheet, strings, ""), expected);
    }
    let twice = [
        (
            "xl/workbook.xml",
            "<workbook><sheets><sheet name=\"A\" r:id=\"rId1\"/><x:sheet id='rId1'/></sheets></workbook>",
        ),
        (
            "xl/_rels/workbook.xml.rels",
            "<R><Relationship Target=\"a/S&#x31;.xml\"/><Relationship Target=\"/xl/A/s1.xml\"/></R>",
        ),
    ];
    twice.iter().for_each(|part| refused(&zipped(&[*part]), "is there twice"));
    let names: Vec<String> = (0..5_000).map(|at| at.to_string()).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    refused(&zipped(&many), "more than 4096 zip entries");
}
