//! Archives of the Channel Archiver: an index file and its data files.

use std::fs::File;
use std::io;
use std::path::{Component, Path};

use epics::channel_archiver::{Index, Item};

use super::items::Items;
use super::{Import, matches};
use crate::failure::Failure;

/// Imports the PVs of an index. A PV is a source; its items are counted.
pub(super) fn import(import: &mut Import<'_>, path: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::new(format!("cannot read: {error}"));
    let whole = path.canonicalize().map_err(failed)?;
    let folder = whole.parent().unwrap_or(Path::new("/")).to_owned();
    let open = || Index::open(&whole.to_string_lossy(), File::open(&whole)?).map_err(io::Error::other);
    let mut index = open().map_err(failed)?;
    let mut channels = Vec::new();
    for channel in index.names() {
        match channel {
            Ok(channel) if matches(&import.arguments.pv, &channel.name) => channels.push(channel),
            Ok(_) => {}
            Err(damage) => import.damaged(&damage.to_string()),
        }
    }
    import.show("{len} PVs", channels.len() as u64);
    for channel in channels {
        let source = format!("{}#{}", whole.display(), channel.name);
        let skip = import.imported(&source)?;
        let mut items = Items::new(source, channel.name.clone());
        let mut count = 0;
        for item in index.samples(&channel, |name: &str| data_file(&folder, name)) {
            count += 1;
            if count <= skip && !matches!(item, Item::Metadata { .. }) {
                continue;
            }
            items.take(import, item)?;
            if items.is_full() {
                items.send(import, count)?;
            }
        }
        if count > skip {
            import.done.sources += 1;
        } else {
            import.done.skipped += 1;
        }
        items.send(import, count)?;
        import.bar.inc(1);
    }
    Ok(())
}

/// A data file in the folder of the index. The archive names it: a name that leads elsewhere is refused.
fn data_file(folder: &Path, name: &str) -> io::Result<File> {
    let path = Path::new(name);
    if path.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{name} is not below the folder of the index"),
        ));
    }
    File::open(folder.join(path))
}
