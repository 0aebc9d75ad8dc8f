//! Messages of PV Access.

use std::net::Ipv4Addr;

use epics::pva::protocol::{
    Frame, Header, Joined, Request, Response, Segments, control, first_frame, frames, monitor, request_of,
};
use epics::pva::wire::{BitSet, Order, Reader, Status, Writer};
use proptest::prelude::*;

fn encoded(request: &Request<'_>, order: Order) -> Vec<u8> {
    let mut out = Vec::new();
    request.encode(order, &mut out);
    out
}

fn written(order: Order, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut Writer::new(&mut out, order));
    out
}

/// Bytes as in the specification: hexadecimal numbers and texts in quotes, separated by spaces.
fn bytes(text: &str) -> Vec<u8> {
    let item = |item: &str| match item.strip_prefix('\'') {
        Some(text) => text.as_bytes().to_vec(),
        None => vec![u8::from_str_radix(item, 16).unwrap()],
    };
    text.split_whitespace().flat_map(item).collect()
}

#[test]
fn bytes_of_requests_are_exactly_these() {
    let names = vec![(1, "A".into()), (0x0203, "BC".into())];
    let cases = [
        (
            Request::Search { sequence: 5, unicast: true, port: 0x1234, names },
            "CA 02 80 03 00 00 00 2E  00 00 00 05 80 00 00 00  00 00 00 00 00 00 00 00 00 00 FF FF 00 00 00 00 12 34 \
             01 03 'tcp 00 02  00 00 00 01 01 'A  00 00 02 03 02 'BC",
        ),
        (Request::Echo, "CA 02 80 02 00 00 00 00"),
        (Request::CreateChannel { channel: 7, name: "A" }, "CA 02 80 07 00 00 00 08  00 01 00 00 00 07 01 'A"),
        (Request::DestroyChannel { server_channel: 1, channel: 7 }, "CA 02 80 08 00 00 00 08  00 00 00 01 00 00 00 07"),
        (
            Request::MonitorInit { server_channel: 1, request: 2, options: &[0xFF], queue: 4 },
            "CA 02 80 0D 00 00 00 0E  00 00 00 01 00 00 00 02 88 FF 00 00 00 04",
        ),
        (
            Request::MonitorStart { server_channel: 1, request: 2 },
            "CA 02 80 0D 00 00 00 09  00 00 00 01 00 00 00 02 44",
        ),
        (
            Request::MonitorAck { server_channel: 1, request: 2, updates: 3 },
            "CA 02 80 0D 00 00 00 0D  00 00 00 01 00 00 00 02 80 00 00 00 03",
        ),
        (Request::DestroyRequest { server_channel: 1, request: 2 }, "CA 02 80 0F 00 00 00 08  00 00 00 01 00 00 00 02"),
        (
            Request::Validation { buffer_bytes: 0x10000, types_max: 0x7FFF, method: "ca", user: "me", host: "h" },
            "CA 02 80 01 00 00 00 1F  00 01 00 00 7F FF 00 00 02 'ca  80 00 02 04 'user 60 04 'host 60 02 'me 01 'h",
        ),
        (
            Request::Validation { buffer_bytes: 1, types_max: 2, method: "anonymous", user: "", host: "" },
            "CA 02 80 01 00 00 00 13  00 00 00 01 00 02 00 00 09 'anonymous FF",
        ),
    ];
    for (request, expected) in cases {
        assert_eq!(encoded(&request, Order::Big), bytes(expected), "{request:?}");
    }
    let little = encoded(&Request::CreateChannel { channel: 7, name: "A" }, Order::Little);
    assert_eq!(little, bytes("CA 02 00 07 08 00 00 00  01 00 07 00 00 00 01 'A"));
}

#[test]
fn requests_are_decoded_to_what_was_encoded() {
    let requests = [
        Request::Search { sequence: 5, unicast: true, port: 1, names: vec![(1, "A".into())] },
        Request::Search { sequence: 5, unicast: false, port: 1, names: vec![] },
        Request::Validation { buffer_bytes: 1, types_max: 2, method: "ca", user: "me", host: "h" },
        Request::Validation { buffer_bytes: 1, types_max: 2, method: "anonymous", user: "", host: "" },
        Request::Echo,
        Request::CreateChannel { channel: 7, name: "A" },
        Request::DestroyChannel { server_channel: 1, channel: 7 },
        Request::MonitorInit { server_channel: 1, request: 2, options: &[1, 2], queue: 4 },
        Request::MonitorStart { server_channel: 1, request: 2 },
        Request::MonitorAck { server_channel: 1, request: 2, updates: 3 },
        Request::DestroyRequest { server_channel: 1, request: 2 },
    ];
    for request in requests {
        for order in [Order::Big, Order::Little] {
            let message = encoded(&request, order);
            let (header, payload) = frames(&message).next().unwrap();
            assert_eq!(Request::decode(&header, payload), Ok(Some(request.clone())));
        }
    }
}

#[test]
fn responses_are_decoded_to_what_was_encoded() {
    let address = Some(Ipv4Addr::new(10, 0, 0, 1));
    let error = Status { kind: 2, message: "no".into() };
    let responses = [
        Response::Beacon { guid: [7; 12], changes: 3, address, port: 5075 },
        Response::Validation { buffer_bytes: 1, types_max: 2, methods: vec!["ca".into()] },
        Response::Validated { status: Status::default() },
        Response::Validated { status: error.clone() },
        Response::Echo,
        Response::Found { guid: [7; 12], sequence: 9, address: None, port: 5075, found: true, channels: vec![1, 2] },
        Response::ChannelCreated { channel: 1, server_channel: 2, status: error },
        Response::ChannelDestroyed { server_channel: 2, channel: 1 },
        Response::Message { request: 1, kind: 2, text: "careful".into() },
    ];
    for response in responses {
        for order in [Order::Big, Order::Little] {
            let mut message = Vec::new();
            response.encode(order, &mut message);
            let (header, payload) = frames(&message).next().unwrap();
            let decoded = Response::decode(&header, payload).unwrap().unwrap();
            assert_eq!(format!("{decoded:?}"), format!("{response:?}"));
        }
    }
}

/// Bytes that pvxs 1.5.3 sent: order, question for the identity, and acceptance.
#[test]
fn the_greeting_of_pvxs_is_understood() {
    let greeting = bytes(
        "CA 02 41 02 00 00 00 00  CA 02 40 01 14 00 00 00 00 00 01 00 FF 7F 02 09 'anonymous 02 'ca  CA 02 40 09 01 00 00 00 FF",
    );
    let messages: Vec<(Header, &[u8])> = frames(&greeting).collect();
    assert!(messages[0].0.is_control() && messages[0].0.command == control::SET_BYTE_ORDER);
    let decoded = |at: usize| Response::decode(&messages[at].0, messages[at].1).unwrap();
    let Some(Response::Validation { buffer_bytes, methods, .. }) = decoded(1) else { panic!("no question") };
    assert_eq!((buffer_bytes, methods), (1 << 16, vec!["anonymous".to_owned(), "ca".to_owned()]));
    assert!(matches!(decoded(2), Some(Response::Validated { status }) if status.is_success()));
}

#[test]
fn sizes_are_one_byte_up_to_253_and_five_from_there_on() {
    let cases = [(0, "00"), (253, "FD"), (254, "FE 00 00 00 FE"), (70_000, "FE 00 01 11 70")];
    for (size, expected) in cases {
        let out = written(Order::Big, |w| w.size(size));
        assert_eq!(out, bytes(expected));
        assert_eq!(Reader::new(&out, Order::Big).size(), Ok(Some(size)));
    }
    assert_eq!(Reader::new(&[0xFF], Order::Big).size(), Ok(None));
    assert!(Reader::new(&bytes("FE FF FF FF FF"), Order::Big).size().is_err(), "negative");
    assert!(Reader::new(&bytes("FE 7F FF FF FF"), Order::Big).count(0, 1).is_err(), "larger than its message");
}

#[test]
fn a_bit_set_has_whole_words_in_the_order_of_the_message_and_the_rest_with_the_low_byte_first() {
    let cases: [(&[usize], Order, &str); 5] = [
        (&[], Order::Big, "00"),
        (&[0, 9], Order::Big, "02 01 02"),
        (&[1, 8, 64], Order::Big, "09 00 00 00 00 00 00 01 02 01"),
        (&[1, 8, 64], Order::Little, "09 02 01 00 00 00 00 00 00 01"),
        (&[63], Order::Little, "08 00 00 00 00 00 00 00 80"),
    ];
    for (bits, order, expected) in cases {
        let set: BitSet = bits.iter().copied().collect();
        let out = written(order, |w| w.bit_set(&set));
        assert_eq!(out, bytes(expected), "{bits:?}");
        let read = Reader::new(&out, order).bit_set().unwrap();
        assert_eq!((0..200).filter(|&bit| read.get(bit)).collect::<Vec<_>>(), bits);
    }
}

#[test]
fn segments_are_joined_and_control_messages_may_come_between_them() {
    let segment = |flags, payload: &'static [u8]| (Header { flags, command: 0x0D, payload_bytes: 0 }, payload);
    let mut segments = Segments::default();
    let mut join = |(header, payload), whole| {
        segments.join(&header, payload, whole, 8).map(|joined| format!("{joined:?}")).map_err(|_| ())
    };
    let joined = |joined: Joined<'_>| Ok(format!("{joined:?}"));
    assert_eq!(join(segment(0, &[1, 2]), true), joined(Joined::Message(&[1, 2])));
    assert_eq!(join(segment(0x10, &[1]), true), joined(Joined::More));
    assert_eq!(join(segment(0x30, &[2, 3]), true), joined(Joined::More));
    assert_eq!(join(segment(0, &[9]), true), Err(()), "another message in between");
    assert_eq!(join(segment(0x20, &[4]), true), joined(Joined::Message(&[1, 2, 3, 4])));
    assert_eq!(join(segment(0x20, &[4]), true), Err(()), "an end without a beginning");
    // Above the limit of 8, only the number of the request and the subcommand are kept.
    assert_eq!(join(segment(0x10, &[1, 2, 3]), true), joined(Joined::More));
    assert_eq!(join(segment(0x30, &[4, 5, 6, 7, 8, 9]), true), joined(Joined::More));
    assert_eq!(join(segment(0x20, &[1; 8]), true), joined(Joined::TooLarge(&[1, 2, 3, 4, 5])));
    assert_eq!(join(segment(0x10, &[1, 2, 3, 4, 5]), false), joined(Joined::More), "one segment is above it");
    assert_eq!(join(segment(0x20, &[1]), true), joined(Joined::TooLarge(&[1, 2, 3, 4, 5])));
    assert_eq!(request_of(&[1, 0, 0, 0, 8], Order::Little), Some((1, monitor::INIT)));
}

#[test]
fn an_incomplete_message_says_how_many_bytes_it_needs_and_a_large_one_shows_its_request() {
    let mut message = Vec::new();
    Response::Message { request: 1, kind: 0, text: "0123456789".into() }.encode(Order::Big, &mut message);
    assert_eq!(first_frame(&message[..3], 100), Ok(Frame::Incomplete { bytes: 8 }));
    assert_eq!(first_frame(&message[..12], 100), Ok(Frame::Incomplete { bytes: 24 }));
    assert!(matches!(first_frame(&message, 100), Ok(Frame::Message { bytes: 24, .. })));
    assert_eq!(first_frame(&message[..9], 10), Ok(Frame::Incomplete { bytes: 13 }));
    let Ok(Frame::TooLarge { start, bytes: 24, .. }) = first_frame(&message[..13], 10) else { panic!("not too large") };
    assert_eq!(start, [0, 0, 0, 1, 0]);
    assert!(first_frame(b"HTTP/1.1", 100).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_messages_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..300), command in 0_u8..20) {
        if bytes.len() >= 8 {
            let payload_bytes = (bytes.len() - 8) as u32;
            bytes[0] = 0xCA;
            bytes[3] = command;
            let order = if bytes[2] & 0x80 != 0 { payload_bytes.to_be_bytes() } else { payload_bytes.to_le_bytes() };
            bytes[4..8].copy_from_slice(&order);
        }
        let mut segments = Segments::default();
        for (header, payload) in frames(&bytes) {
            let _ = Request::decode(&header, payload);
            let _ = Response::decode(&header, payload);
            let _ = segments.join(&header, payload, true, 100);
            let mut reader = Reader::new(payload, header.order());
            let _ = (reader.bit_set(), reader.status(), reader.text());
        }
        let _ = first_frame(&bytes, 50);
    }
}
