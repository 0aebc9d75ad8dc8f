//! The simulated disk: names, files, their durable state, and faults.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::image::{Image, SECTOR_BYTES};
use super::{Faults, Rng};
use crate::{DirEntry, Open};

pub(super) struct Disk {
    rng: Rng,
    pub(super) faults: Faults,
    /// Numbers of the I/O calls that fail.
    pub(super) fail_calls: Range<u64>,
    pub(super) calls: u64,
    pub(super) is_out_of_handles: bool,
    pub(super) capacity: u64,
    /// Incremented when the process ends; files opened before are invalid.
    pub(super) generation: u64,
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    names: Names,
    durable_names: Names,
    /// Changes of names not covered by a directory sync, oldest first.
    unsynced_names: Vec<NameChange>,
    locked: BTreeSet<PathBuf>,
}

type Names = BTreeMap<PathBuf, Node>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Node {
    Folder,
    File(u64),
}

/// New nodes of some paths, `None` for removed ones. A rename changes two paths, atomically.
type NameChange = Vec<(PathBuf, Option<Node>)>;

#[derive(Default)]
struct Inode {
    volatile: Image,
    durable: Image,
    unsynced: Vec<Change>,
    /// Bytes from the start with reserved disk space.
    allocated: u64,
    open_files: u64,
}

enum Change {
    Write { offset: u64, data: Vec<u8> },
    Bytes(u64),
}

#[derive(Clone, Copy)]
enum Call {
    Read,
    Write,
    Sync,
    Name,
}

impl Disk {
    pub(super) fn new(seed: u64) -> Disk {
        let root = Names::from([(PathBuf::from("/"), Node::Folder)]);
        Disk {
            rng: Rng(seed),
            faults: Faults::default(),
            fail_calls: 0..0,
            calls: 0,
            is_out_of_handles: false,
            capacity: u64::MAX,
            generation: 0,
            inodes: BTreeMap::new(),
            next_inode: 0,
            names: root.clone(),
            durable_names: root,
            unsynced_names: Vec::new(),
            locked: BTreeSet::new(),
        }
    }

    /// Counts a call; returns whether it fails.
    fn fails(&mut self, call: Call) -> bool {
        self.calls += 1;
        let chance = match call {
            Call::Read => self.faults.read_error,
            Call::Write => self.faults.write_error,
            Call::Sync => self.faults.sync_error,
            Call::Name => self.faults.name_error,
        };
        let by_chance = self.rng.chance(chance);
        by_chance || self.fail_calls.contains(&self.calls)
    }

    fn check(&mut self, call: Call) -> io::Result<()> {
        if self.fails(call) { Err(broken()) } else { Ok(()) }
    }

    fn check_handles(&self) -> io::Result<()> {
        if self.is_out_of_handles { Err(io::Error::from_raw_os_error(libc::EMFILE)) } else { Ok(()) }
    }

    // Names

    pub(super) fn open(&mut self, path: &Path, how: Open) -> io::Result<(u64, u64)> {
        self.check(Call::Name)?;
        self.check_handles()?;
        let inode = match (self.names.get(path), how) {
            (Some(_), Open::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(Node::Folder), _) => return Err(io::ErrorKind::IsADirectory.into()),
            (Some(Node::File(inode)), _) => *inode,
            (None, Open::CreateNew) => self.create(path)?,
            (None, _) => return Err(io::ErrorKind::NotFound.into()),
        };
        self.inode(inode)?.open_files += 1;
        Ok((inode, self.generation))
    }

    fn create(&mut self, path: &Path) -> io::Result<u64> {
        self.check_folder(parent(path))?;
        self.next_inode += 1;
        self.inodes.insert(self.next_inode, Inode::default());
        self.change_names(vec![(path.to_owned(), Some(Node::File(self.next_inode)))]);
        Ok(self.next_inode)
    }

    pub(super) fn open_dir(&mut self, dir: &Path) -> io::Result<u64> {
        self.check_handles()?;
        self.check_folder(dir)?;
        Ok(self.generation)
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(Call::Name)?;
        let node = *self.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        self.check_folder(parent(to))?;
        if node == Node::Folder || self.names.get(to) == Some(&Node::Folder) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.change_names(vec![(from.to_owned(), None), (to.to_owned(), Some(node))]);
        debug_assert!(from == to || !self.names.contains_key(from), "BUG: {} after its rename", from.display());
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.check(Call::Name)?;
        match self.names.get(path) {
            None => Err(io::ErrorKind::NotFound.into()),
            Some(Node::Folder) => Err(io::ErrorKind::IsADirectory.into()),
            Some(Node::File(_)) => {
                self.change_names(vec![(path.to_owned(), None)]);
                Ok(())
            }
        }
    }

    pub(super) fn remove_dir_all(&mut self, path: &Path) -> io::Result<()> {
        self.check(Call::Name)?;
        let inside: Vec<PathBuf> = self.names.keys().filter(|name| name.starts_with(path)).cloned().collect();
        // Children first, as a real removal works.
        for name in inside.into_iter().rev() {
            self.change_names(vec![(name, None)]);
        }
        Ok(())
    }

    pub(super) fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        self.check(Call::Name)?;
        let missing: Vec<&Path> = path.ancestors().take_while(|name| !self.names.contains_key(*name)).collect();
        for name in missing.into_iter().rev().filter(|name| !name.as_os_str().is_empty()) {
            self.change_names(vec![(name.to_owned(), Some(Node::Folder))]);
        }
        self.check_folder(path)
    }

    pub(super) fn list(&mut self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.check(Call::Name)?;
        self.check_handles()?;
        self.check_folder(dir)?;
        let inside = self.names.iter().filter(|(name, _)| name.parent() == Some(dir));
        let entries = inside.map(|(name, node)| DirEntry {
            name: name.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            bytes: match node {
                Node::Folder => 0,
                Node::File(inode) => self.inodes.get(inode).map_or(0, |inode| inode.volatile.bytes()),
            },
            is_dir: *node == Node::Folder,
        });
        Ok(entries.collect())
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        self.check(Call::Name)?;
        self.check_folder(dir)?;
        let touches = |change: &NameChange| change.iter().any(|(name, _)| parent(name) == dir);
        let all = self.unsynced_names.len();
        let (synced, left) = std::mem::take(&mut self.unsynced_names).into_iter().partition(touches);
        self.unsynced_names = left;
        let synced: Vec<NameChange> = synced;
        assert!(synced.len() + self.unsynced_names.len() == all, "BUG: {all} changes of names, some were lost");
        synced.into_iter().for_each(|change| apply(&mut self.durable_names, change));
        self.forget_unnamed();
        Ok(())
    }

    pub(super) fn lock(&mut self, path: &Path) -> io::Result<u64> {
        self.check(Call::Name)?;
        if !self.names.contains_key(path) {
            self.create(path)?;
        }
        if !self.locked.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(self.generation)
    }

    pub(super) fn unlock(&mut self, path: &Path, generation: u64) {
        if generation == self.generation {
            self.locked.remove(path);
        }
    }

    fn check_folder(&self, path: &Path) -> io::Result<()> {
        match self.names.get(path) {
            Some(Node::Folder) => Ok(()),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn change_names(&mut self, change: NameChange) {
        apply(&mut self.names, change.clone());
        self.unsynced_names.push(change);
        self.forget_unnamed();
    }

    /// Removes files that no name, now or after a crash, and no open file refers to.
    fn forget_unnamed(&mut self) {
        let changed = self.unsynced_names.iter().flatten().filter_map(|(_, node)| node.as_ref());
        let nodes = self.names.values().chain(self.durable_names.values()).chain(changed);
        let named: BTreeSet<u64> = nodes.filter_map(Node::file).collect();
        self.inodes.retain(|number, inode| inode.open_files > 0 || named.contains(number));
        debug_assert!(named.iter().all(|number| self.inodes.contains_key(number)), "BUG: a name of a missing file");
    }

    // Contents

    fn inode(&mut self, inode: u64) -> io::Result<&mut Inode> {
        self.inodes.get_mut(&inode).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn close(&mut self, inode: u64, generation: u64) {
        if generation == self.generation
            && let Ok(inode) = self.inode(inode)
        {
            inode.open_files = inode.open_files.checked_sub(1).expect("BUG: a file was closed twice");
        }
    }

    pub(super) fn read_at(&mut self, inode: u64, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.check(Call::Read)?;
        let inode = self.inode(inode)?;
        if offset.saturating_add(buf.len() as u64) > inode.volatile.bytes() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        inode.volatile.read(buf, offset);
        Ok(())
    }

    pub(super) fn write_at(&mut self, inode: u64, buf: &[u8], offset: u64) -> io::Result<()> {
        let fails = self.fails(Call::Write);
        let fits = self.reserve(inode, offset.saturating_add(buf.len() as u64));
        let result = if fails { Err(broken()) } else { fits };
        let mut done = buf.len();
        if result.is_err() {
            // A short write: as much as the space permits, or any part.
            let room = self.inode(inode)?.allocated.saturating_sub(offset).min(done as u64);
            done = self.rng.below(room + 1) as usize;
        }
        if done > 0 {
            let data = buf[..done].to_vec();
            let inode = self.inode(inode)?;
            inode.volatile.write(&data, offset);
            inode.unsynced.push(Change::Write { offset, data });
        }
        result
    }

    pub(super) fn set_bytes(&mut self, inode: u64, bytes: u64) -> io::Result<()> {
        self.check(Call::Write)?;
        self.inode(inode)?.set_bytes(bytes);
        Ok(())
    }

    pub(super) fn allocate(&mut self, inode: u64, bytes: u64) -> io::Result<()> {
        self.check(Call::Write)?;
        self.reserve(inode, bytes)?;
        let inode = self.inode(inode)?;
        if bytes > inode.volatile.bytes() {
            inode.set_bytes(bytes);
        }
        Ok(())
    }

    pub(super) fn reserve_space(&mut self, inode: u64, bytes: u64) -> io::Result<()> {
        self.check(Call::Write)?;
        self.reserve(inode, bytes)
    }

    /// Reserves disk space for a file up to `bytes`.
    fn reserve(&mut self, inode: u64, bytes: u64) -> io::Result<()> {
        let free = self.capacity.saturating_sub(self.used());
        let inode = self.inode(inode)?;
        if bytes.saturating_sub(inode.allocated) > free {
            return Err(io::ErrorKind::StorageFull.into());
        }
        inode.allocated = inode.allocated.max(bytes);
        Ok(())
    }

    pub(super) fn sync(&mut self, inode: u64) -> io::Result<()> {
        let fails = self.fails(Call::Sync);
        let mut unsynced = std::mem::take(&mut self.inode(inode)?.unsynced);
        if fails {
            unsynced = survivors(&mut self.rng, unsynced);
        }
        let inode = self.inode(inode)?;
        unsynced.into_iter().for_each(|change| change.apply(&mut inode.durable));
        if fails { Err(broken()) } else { Ok(()) }
    }

    pub(super) fn bytes(&mut self, inode: u64) -> io::Result<u64> {
        self.check(Call::Name)?;
        Ok(self.inode(inode)?.volatile.bytes())
    }

    pub(super) fn free(&mut self) -> io::Result<u64> {
        self.check(Call::Name)?;
        Ok(self.capacity.saturating_sub(self.used()))
    }

    /// Reserved space of all files with a name.
    pub(super) fn used(&self) -> u64 {
        let files = self.names.values().filter_map(Node::file);
        files.filter_map(|inode| self.inodes.get(&inode)).map(|inode| inode.allocated).sum()
    }

    pub(super) fn flip_bit(&mut self, path: &Path, byte: u64, bit: u32) {
        let inode = self.names.get(path).and_then(Node::file).and_then(|inode| self.inodes.get_mut(&inode));
        let Some(inode) = inode else {
            panic!("no file {}", path.display());
        };
        inode.volatile.flip_bit(byte, bit);
        if byte < inode.durable.bytes() {
            inode.durable.flip_bit(byte, bit);
        }
    }

    // Crashes

    pub(super) fn end_process(&mut self) {
        self.generation += 1;
        self.locked.clear();
        self.inodes.values_mut().for_each(|inode| inode.open_files = 0);
        self.forget_unnamed();
    }

    pub(super) fn crash(&mut self) {
        self.end_process();
        for change in survivors(&mut self.rng, std::mem::take(&mut self.unsynced_names)) {
            apply(&mut self.durable_names, change);
        }
        drop_orphans(&mut self.durable_names);
        self.names = self.durable_names.clone();
        self.forget_unnamed();
        for inode in self.inodes.values_mut() {
            for change in survivors(&mut self.rng, std::mem::take(&mut inode.unsynced)) {
                change.apply(&mut inode.durable);
            }
            inode.volatile = inode.durable.clone();
            inode.allocated = inode.allocated.min(inode.durable.bytes());
        }
    }
}

impl Node {
    fn file(&self) -> Option<u64> {
        match self {
            Node::Folder => None,
            Node::File(inode) => Some(*inode),
        }
    }
}

impl Inode {
    fn set_bytes(&mut self, bytes: u64) {
        self.volatile.set_bytes(bytes);
        self.allocated = self.allocated.min(bytes);
        self.unsynced.push(Change::Bytes(bytes));
    }
}

impl Change {
    fn apply(self, image: &mut Image) {
        match self {
            Change::Write { offset, data } => image.write(&data, offset),
            Change::Bytes(bytes) => image.set_bytes(bytes),
        }
    }
}

/// A change that may survive partly.
trait Survive: Sized {
    /// Parts that survive independently.
    fn split(self) -> Vec<Self>;
}

impl Survive for NameChange {
    fn split(self) -> Vec<NameChange> {
        vec![self]
    }
}

impl Survive for Change {
    /// Split at sector boundaries.
    fn split(self) -> Vec<Change> {
        let Change::Write { mut offset, data } = self else {
            return vec![self];
        };
        let mut parts = Vec::new();
        let mut rest = &data[..];
        while !rest.is_empty() {
            let count = (SECTOR_BYTES - offset % SECTOR_BYTES).min(rest.len() as u64);
            let (part, after) = rest.split_at(count as usize);
            parts.push(Change::Write { offset, data: part.to_vec() });
            offset += count;
            rest = after;
        }
        parts
    }
}

/// Chooses the `changes` that reach the disk, in their order. One draw selects the share (none,
/// little, half, most, all), so that both rare mixtures and clean cuts occur often.
fn survivors<T: Survive>(rng: &mut Rng, changes: Vec<T>) -> Vec<T> {
    let share = [0.0, 0.1, 0.5, 0.9, 1.0][rng.below(5) as usize];
    let mut kept = Vec::new();
    for change in changes {
        if rng.chance(0.5) {
            // Completely or not at all.
            kept.extend(rng.chance(share).then_some(change));
        } else {
            kept.extend(change.split().into_iter().filter(|_| rng.chance(share)));
        }
    }
    kept
}

fn apply(names: &mut Names, change: NameChange) {
    for (name, node) in change {
        match node {
            Some(node) => names.insert(name, node),
            None => names.remove(&name),
        };
    }
}

/// Removes the contents of directories that did not survive.
fn drop_orphans(names: &mut Names) {
    let folders: BTreeSet<PathBuf> =
        names.iter().filter(|(_, node)| **node == Node::Folder).map(|(name, _)| name.clone()).collect();
    names.retain(|name, _| {
        name.ancestors().skip(1).all(|above| above.as_os_str().is_empty() || folders.contains(above))
    });
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

fn broken() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}
