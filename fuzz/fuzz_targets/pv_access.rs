//! Bytes of a PV Access connection, and of a structure. Monitors are followed as a circuit does, so that any type and any update of
//! it becomes a sample, or is refused. A structure that is read is the same after writing and reading.
#![no_main]

use std::collections::HashMap;

use epics::pva::Structure;
use epics::pva::data::{Data, update};
use epics::pva::normative::Layout;
use epics::pva::protocol::{Request, Response, frames, monitor};
use epics::pva::types::{Type, TypeCache};
use epics::pva::wire::{Malformed, Reader};
use libfuzzer_sys::fuzz_target;

type Monitors = HashMap<u32, (Layout, Box<[Data]>)>;

fuzz_target!(|bytes: &[u8]| {
    let mut types = TypeCache::default();
    let mut monitors = Monitors::new();
    for (header, payload) in frames(bytes) {
        let _ = Request::decode(&header, payload);
        if let Ok(Some(Response::Monitor { request, subcommand, body })) = Response::decode(&header, payload) {
            let _ = follow(&mut monitors, &mut types, request, subcommand, body);
        }
    }
    if let Ok(structure) = Structure::decode(bytes) {
        let written = structure.encode();
        let again = Structure::decode(&written).expect("what was written can be read");
        assert_eq!(again.encode(), written);
    }
});

fn follow(
    monitors: &mut Monitors,
    types: &mut TypeCache,
    request: u32,
    subcommand: u8,
    mut body: Reader<'_>,
) -> Result<(), Malformed> {
    if subcommand & monitor::INIT != 0 {
        body.status()?;
        if let Some(Type::Structure(fields)) = Type::decode(&mut body, types)? {
            let layout = Layout::of(fields);
            let data = Data::defaults(layout.fields());
            monitors.insert(request, (layout, data));
        }
        return Ok(());
    }
    let Some((layout, data)) = monitors.get_mut(&request) else { return Ok(()) };
    let changed = body.bit_set()?;
    update(&mut body, layout.fields(), data, &changed, layout.wanted(), types)?;
    let _ = (layout.has_sample(&changed), layout.has_metadata(&changed));
    let _ = (layout.sample(data, 0), layout.metadata(data), layout.annotations(data));
    Ok(())
}
