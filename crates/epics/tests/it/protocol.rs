//! Messages: round trips, golden bytes, any bytes.

use std::net::Ipv4Addr;

use epics::ca::protocol::{Frame, Header, NAME_BYTES_MAX, Request, Response, first_frame, frames};
use epics::ca::{Access, EventMask};
use proptest::prelude::*;

fn requests() -> Vec<Request<'static>> {
    let name: &[u8] = b"SR:BEAM:CURRENT";
    vec![
        Request::Version { priority: 7, minor: 13 },
        Request::Search { name, channel: 77, minor: 13, must_reply: false },
        Request::Search { name, channel: 77, minor: 13, must_reply: true },
        Request::ClientName { name },
        Request::HostName { name },
        Request::CreateChannel { name, channel: 3, minor: 13 },
        Request::EventAdd { data_type: 20, count: 0, server_channel: 1, subscription: 2, mask: EventMask(6) },
        Request::EventAdd { data_type: 20, count: 70_000, server_channel: 1, subscription: 2, mask: EventMask(8) },
        Request::EventCancel { data_type: 20, count: 1, server_channel: 1, subscription: 2 },
        Request::ReadNotify { data_type: 34, count: 1, server_channel: 1, read: u32::MAX },
        Request::ClearChannel { server_channel: 1, channel: 2 },
        Request::EventsOff,
        Request::EventsOn,
        Request::Echo,
        Request::RepeaterRegister { address: Ipv4Addr::LOCALHOST },
    ]
}

fn responses(payload: &[u8]) -> Vec<Response<'_>> {
    let request = Header { command: 15, payload_bytes: 0, data_type: 20, count: 70_000, p1: 1, p2: 2 };
    let (data_type, count) = (20, 100_000);
    vec![
        Response::Version { minor: 13 },
        Response::Found { channel: 5, port: 5064, address: None, minor: 13 },
        Response::Found { channel: 5, port: 5064, address: Some(Ipv4Addr::new(10, 1, 2, 3)), minor: 11 },
        Response::NotFound { channel: 5 },
        Response::ChannelCreated { channel: 5, server_channel: 6, data_type: 6, count: 1 << 20 },
        Response::ChannelRefused { channel: 5 },
        Response::AccessRights { channel: 5, access: Access { read: true, write: false } },
        Response::Event { subscription: 9, data_type, count, status: 1, payload },
        Response::Read { read: 9, data_type, count, status: 1, payload },
        Response::ChannelCleared { server_channel: 5, channel: 6 },
        Response::ServerDisconnected { channel: 5 },
        Response::Echo,
        Response::Error { channel: 5, status: 368, request, text: b"no access" },
        Response::Beacon { minor: 13, port: 5064, number: 99, address: Some(Ipv4Addr::LOCALHOST) },
        Response::RepeaterConfirm { address: Ipv4Addr::LOCALHOST },
    ]
}

fn message(bytes: &[u8]) -> (Header, &[u8]) {
    match first_frame(bytes, usize::MAX) {
        Frame::Message { header, payload, bytes: used } if used == bytes.len() => (header, payload),
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_are_decoded_to_what_was_encoded() {
    for request in requests() {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        assert_eq!(bytes.len() % 8, 0);
        let (header, payload) = message(&bytes);
        assert_eq!(Request::decode(&header, payload), Ok(Some(request)));
    }
}

#[test]
fn responses_are_decoded_to_what_was_encoded() {
    let payload = vec![7; 80_000];
    for response in responses(&payload) {
        let mut bytes = Vec::new();
        response.encode(&mut bytes);
        let (header, payload) = message(&bytes);
        assert_eq!(Response::decode(&header, payload), Ok(Some(response)));
    }
}

#[test]
fn bytes_of_messages_are_exactly_these() {
    let cases: [(Request<'_>, &[u8]); 3] = [
        (Request::Version { priority: 1, minor: 13 }, &[0, 0, 0, 0, 0, 1, 0, 13, 0, 0, 0, 0, 0, 0, 0, 0]),
        (
            Request::CreateChannel { name: b"T:AI", channel: 2, minor: 13 },
            &[0, 18, 0, 8, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 13, b'T', b':', b'A', b'I', 0, 0, 0, 0],
        ),
        (
            Request::EventAdd { data_type: 20, count: 0, server_channel: 3, subscription: 4, mask: EventMask(6) },
            &[0, 1, 0, 16, 0, 20, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0],
        ),
    ];
    for (request, expected) in cases {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        assert_eq!(bytes, expected, "{request:?}");
    }
}

#[test]
fn the_long_header_is_used_from_65535_bytes_or_65536_elements_on() {
    for (payload_bytes, count, expected) in
        [(65_534, 65_535, 16), (65_535, 0, 24), (8, 65_536, 24), (u32::MAX, u32::MAX, 24), (0, 0, 16)]
    {
        let header = Header { command: 1, payload_bytes, data_type: 20, count, p1: 1, p2: 2 };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        assert_eq!(Header::decode(&bytes), Some((header, expected)));
    }
}

#[test]
fn a_message_above_the_limit_is_refused_by_its_header_alone() {
    let header = Header { command: 1, payload_bytes: u32::MAX, data_type: 20, count: 1, p1: 1, p2: 2 };
    let mut bytes = Vec::new();
    header.encode(&mut bytes);
    assert_eq!(first_frame(&bytes, 1 << 20), Frame::TooLarge { header, bytes: 24 + u64::from(u32::MAX) });
}

#[test]
fn a_name_above_the_limit_is_cut() {
    let mut bytes = Vec::new();
    Request::HostName { name: &[b'x'; 10_000] }.encode(&mut bytes);
    let (header, payload) = message(&bytes);
    let Ok(Some(Request::HostName { name })) = Request::decode(&header, payload) else { panic!("{header:?}") };
    assert_eq!(name.len(), NAME_BYTES_MAX);
}

proptest! {
    #[test]
    fn any_bytes_are_messages_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), command in 0_u16..30) {
        let mut bytes = bytes;
        if bytes.len() >= 8 {
            bytes[..2].copy_from_slice(&command.to_be_bytes());
            bytes[2] = 0;
        }
        for (header, payload) in frames(&bytes) {
            let _ = Request::decode(&header, payload);
            let _ = Response::decode(&header, payload);
        }
        let _ = first_frame(&bytes, 64);
    }

    #[test]
    fn an_incomplete_message_says_how_many_bytes_it_needs(payload in 0..300_usize, cut in 0..300_usize) {
        let mut bytes = Vec::new();
        Response::Event { subscription: 1, data_type: 20, count: 1, status: 1, payload: &vec![1; payload] }.encode(&mut bytes);
        let cut = cut.min(bytes.len() - 1);
        let Frame::Incomplete { bytes: needed } = first_frame(&bytes[..cut], 1 << 20) else { panic!("complete") };
        prop_assert!(needed > cut && needed <= bytes.len());
    }
}
