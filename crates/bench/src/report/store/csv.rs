//! `TEST_DATA_PERSISTENCE=CSV`: files in `data/csv`, one line for each operation; complete files
//! are zipped.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use super::{FinalValue, Pieces, Run, Store, Stored};
use crate::error::{Error, Result};
use crate::report::{create_dir, csv_line};

const DETAIL_COLUMNS: [&str; 9] =
    ["id", "recordTime", "clientName", "operation", "okPoint", "failPoint", "latency", "rate", "remark"];

pub(super) struct CsvStore {
    dir: PathBuf,
    id: String,
    pieces: Pieces,
    path: PathBuf,
    file: BufWriter<File>,
    /// Files being zipped on threads: compressing takes seconds, and the queue must not fill up
    /// meanwhile.
    zipping: Vec<JoinHandle<Result>>,
}

impl CsvStore {
    pub(super) fn open(run: &Run<'_>) -> Result<Self> {
        let dir = run.home.join("data/csv");
        create_dir(&dir)?;
        let id = run.id(usize::MAX);
        let mut text = csv_line(&["id", "configuration_item", "configuration_value"]);
        for (key, value) in run.configuration("DEFAULT_TEST_MODE") {
            text.push_str(&format!(",{key},\"{}\"\n", value.replace('"', "\"\"")));
        }
        write_new(&dir.join(format!("{id}_CONF.csv")), &text)?;
        let pieces = Pieces::new(run.rows_max());
        let (path, file) = begin_piece(&dir, &id, &pieces)?;
        Ok(CsvStore { dir, id, pieces, path, file, zipping: Vec::new() })
    }

    fn next_piece(&mut self) -> Result {
        self.file.flush().map_err(|error| cannot_write(&self.path, &error))?;
        self.pieces.next();
        let (path, file) = begin_piece(&self.dir, &self.id, &self.pieces)?;
        self.file = file;
        let finished = std::mem::replace(&mut self.path, path);
        self.zipping.push(std::thread::spawn(move || zip_and_remove(&finished)));
        Ok(())
    }
}

impl Store for CsvStore {
    fn append(&mut self, operations: &[Stored<'_>]) -> Result {
        let mut rest = operations;
        while !rest.is_empty() {
            if self.pieces.room(1) == 0 {
                self.next_piece()?;
            }
            let (now, later) = rest.split_at(self.pieces.room(rest.len()));
            let text: String = now.iter().map(line).collect();
            self.file.write_all(text.as_bytes()).map_err(|error| cannot_write(&self.path, &error))?;
            self.pieces.add(now.len());
            rest = later;
        }
        self.file.flush().map_err(|error| cannot_write(&self.path, &error))
    }

    fn finish(&mut self, results: &[FinalValue]) -> Result {
        let mut text = csv_line(&["id", "operation", "result_key", "result_value"]);
        text.extend(results.iter().map(|value| csv_line(&["", &value.operation, value.key, &value.value])));
        write_new(&self.dir.join(format!("{}_FINAL_RESULT.csv", self.id)), &text)?;
        for zipping in self.zipping.drain(..) {
            zipping.join().map_err(|_| Error::setup("recorder: zipping a file panicked".to_owned()))??;
        }
        Ok(())
    }

    fn location(&self) -> String {
        self.dir.join(format!("{}_*", self.id)).display().to_string()
    }
}

fn line(stored: &Stored<'_>) -> String {
    csv_line(&[
        "",
        &stored.time,
        stored.client,
        stored.operation,
        &stored.ok_points.to_string(),
        &stored.failed_points.to_string(),
        &format!("{:.3}", stored.latency_ms),
        &format!("{:.3}", stored.rate),
        stored.remark,
    ])
}

fn begin_piece(dir: &Path, id: &str, pieces: &Pieces) -> Result<(PathBuf, BufWriter<File>)> {
    let path = dir.join(pieces.name(&format!("{id}_DETAIL"), id) + ".csv");
    let file = File::create_new(&path).map_err(|error| cannot_write(&path, &error))?;
    let mut file = BufWriter::new(file);
    file.write_all(csv_line(&DETAIL_COLUMNS).as_bytes()).map_err(|error| cannot_write(&path, &error))?;
    Ok((path, file))
}

fn write_new(path: &Path, text: &str) -> Result {
    let written = File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    Error::setup(format!("{}: records cannot be written: {error}", path.display()))
}

/// Replaces `X.csv` by `X.zip`. The CSV file is removed only after the archive is complete.
fn zip_and_remove(path: &Path) -> Result {
    let zip_path = path.with_extension("zip");
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let zipped = (|| -> std::io::Result<()> {
        let options = zip::write::SimpleFileOptions::default().large_file(true);
        let mut archive = zip::ZipWriter::new(File::create_new(&zip_path)?);
        archive.start_file(name, options)?;
        std::io::copy(&mut File::open(path)?, &mut archive)?;
        archive.finish()?;
        std::fs::remove_file(path)
    })();
    zipped.map_err(|error| Error::setup(format!("{}: cannot be zipped: {error}", path.display())))
}
