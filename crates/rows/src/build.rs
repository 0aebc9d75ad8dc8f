//! Making tables: new ones, later versions of old ones, and indexes of rows that are there.

use std::sync::Arc;

use model::{Datum, Error, Result, RowIndex, RowSchemaRef, SqlState};

use crate::index::Index;
use crate::locks::TxnId;
use crate::record::Version;
use crate::row::RowLayout;
use crate::table::{IndexData, RecordId, Records, RowTable};
use crate::txn::Txn;

impl RowTable {
    /// A table without rows.
    ///
    /// # Errors
    /// As [`RowLayout::of`].
    pub fn new(schema: RowSchemaRef) -> Result<RowTable> {
        RowTable::over(schema, Arc::new(Records::new()))
    }

    /// A table over records, its indexes still empty.
    ///
    /// # Errors
    /// As [`RowLayout::of`].
    pub fn over(schema: RowSchemaRef, records: Arc<Records>) -> Result<RowTable> {
        let layout = Arc::new(RowLayout::of(&schema)?);
        let index = |def: &RowIndex| Arc::new(IndexData::new(&schema, def));
        let (primary, secondary) =
            (schema.primary.as_ref().map(index), schema.secondary.iter().map(index).collect::<Vec<_>>());
        Ok(RowTable { layout, records, primary, secondary, schema })
    }

    /// Its next version, over the same records. Indexes that say the same as before are shared; the others are made from the rows that
    /// count for `txn`, which has the table alone.
    ///
    /// # Errors
    /// 23505 when a key of a new unique index is there twice, `show` writing its values; 54000 for a key that is too long.
    ///
    /// # Cost
    /// For a new index a key of each row in memory, and sorting them.
    pub fn altered(&self, schema: RowSchemaRef, txn: &Txn, show: &dyn Fn(&Datum<'_>) -> String) -> Result<RowTable> {
        let mut next = RowTable::over(schema, Arc::clone(&self.records))?;
        let old: Vec<_> = self.primary.iter().chain(&self.secondary).cloned().collect();
        let is_same = |old: &Arc<IndexData>, new: &IndexData| old.def == new.def && old.keys == new.keys;
        if let (Some(new), Some(old)) = (&mut next.primary, &self.primary)
            && is_same(old, new)
        {
            *new = Arc::clone(old);
        }
        for new in &mut next.secondary {
            // What was the primary one has other entries.
            if let Some(old) = self.secondary.iter().find(|old| is_same(old, new)) {
                *new = Arc::clone(old);
            }
        }
        next.build(Some(txn.id()), show, |index| !old.iter().any(|old| Arc::ptr_eq(old, index)))?;
        Ok(next)
    }

    /// Its next version, without rows.
    ///
    /// # Errors
    /// As [`RowTable::new`].
    pub fn emptied(&self, schema: RowSchemaRef) -> Result<RowTable> {
        let records = Arc::new(self.records.emptied(schema.version));
        RowTable::over(schema, records)
    }

    /// Fills its indexes, after recovery: nobody uses it yet.
    ///
    /// # Errors
    /// XX001 when a row is none, or a key is there twice that may be there once only.
    pub fn indexed(&self) -> Result<RowTable> {
        let mut table = RowTable {
            schema: Arc::clone(&self.schema),
            layout: Arc::clone(&self.layout),
            records: Arc::clone(&self.records),
            primary: self.primary.clone(),
            secondary: self.secondary.clone(),
        };
        let built = table.build(None, &|value| format!("{value:?}"), |_| true);
        built.map_err(|error| Error::corrupt(format!("relation {}: {error}", self.schema.name)))?;
        Ok(table)
    }

    fn build(
        &mut self,
        me: Option<TxnId>,
        show: &dyn Fn(&Datum<'_>) -> String,
        which: impl Fn(&Arc<IndexData>) -> bool,
    ) -> Result<()> {
        let build = |index: &Arc<IndexData>, is_primary| -> Result<Arc<IndexData>> {
            let tree = self.tree(index, is_primary, me, show)?;
            Ok(Arc::new(IndexData { def: index.def.clone(), keys: index.keys.clone(), tree }))
        };
        let primary = self.primary.as_ref().filter(|index| which(index)).map(|index| build(index, true)).transpose()?;
        let mut secondary = self.secondary.clone();
        for index in secondary.iter_mut().filter(|index| which(index)) {
            *index = build(index, false)?;
        }
        self.primary = primary.or(self.primary.take());
        self.secondary = secondary;
        Ok(())
    }

    /// The entries of one index.
    fn tree(
        &self,
        index: &IndexData,
        is_primary: bool,
        me: Option<TxnId>,
        show: &dyn Fn(&Datum<'_>) -> String,
    ) -> Result<Index> {
        let mut keys = Vec::new();
        // Where each key is among `keys`, whether all of it counts for uniqueness, and its record.
        let mut entries: Vec<(usize, u32, bool, u64)> = Vec::new();
        for run in self.records.arena.runs() {
            let guard = &crossbeam_epoch::pin();
            for number in run {
                let slot = self.records.record(RecordId(number))?;
                let version = match me {
                    Some(me) => slot.current(me, guard),
                    None => slot.newest(guard),
                };
                let Some(row) = version.and_then(Version::row) else { continue };
                let start = keys.len();
                let has_null = index.key_of(&self.layout, row, &mut keys)?;
                if !is_primary {
                    RowTable::entry_key(&mut keys, RecordId(number));
                }
                entries.push((start, (keys.len() - start) as u32, index.def.unique && !has_null, number));
            }
        }
        let key = |entry: &(usize, u32, bool, u64)| &keys[entry.0..entry.0 + entry.1 as usize];
        entries.sort_unstable_by(|one, other| key(one).cmp(key(other)));
        let plain = |entry| {
            let key = key(entry);
            if is_primary { key } else { &key[..key.len() - size_of::<u64>()] }
        };
        let twice = entries.windows(2).find(|pair| pair[0].2 && pair[1].2 && plain(&pair[0]) == plain(&pair[1]));
        if let Some(pair) = twice {
            return Err(self.duplicate(index, RecordId(pair[1].3), me, show)?);
        }
        Ok(Index::build(entries.iter().map(|entry| (key(entry), entry.3))))
    }

    fn duplicate(
        &self,
        index: &IndexData,
        record: RecordId,
        me: Option<TxnId>,
        show: &dyn Fn(&Datum<'_>) -> String,
    ) -> Result<Error> {
        let guard = &crossbeam_epoch::pin();
        let slot = self.records.record(record)?;
        let version = me.map_or_else(|| slot.newest(guard), |me| slot.current(me, guard));
        let row = version.and_then(Version::row).unwrap_or_default();
        let names: Vec<&str> = index.def.columns.iter().map(|at| self.schema.columns[*at].name.as_str()).collect();
        let values = index.def.columns.iter().map(|at| Ok(show(&self.layout.field(row, *at)?)));
        let values = values.collect::<Result<Vec<_>>>()?;
        let text = format!("could not create unique index \"{}\"", index.def.name);
        let detail = format!("Key ({})=({}) is duplicated.", names.join(", "), values.join(", "));
        let error = Error::new(SqlState::UNIQUE_VIOLATION, text).with_detail(detail);
        Ok(error.about_constraint(&self.schema.name, &index.def.name))
    }
}
