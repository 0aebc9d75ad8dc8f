//! Settings from environment variables.

use std::time::Duration;

use epics::ca::Settings;
use epics::pva;

fn read(variables: &[(&str, &str)]) -> Result<Settings, String> {
    let variable = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
    Settings::from_variables(variable, Some("")).map_err(|error| error.to_string())
}

fn addresses(variables: &[(&str, &str)]) -> String {
    let settings = read(variables).unwrap();
    settings.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn without_variables_the_settings_are_the_defaults() {
    assert_eq!(read(&[]), Ok(Settings::default()));
}

#[test]
fn addresses_take_the_port_of_servers_where_they_have_none() {
    let list = ("EPICS_CA_ADDR_LIST", " 10.0.0.1  10.0.0.2:6000 10.0.0.1\t");
    assert_eq!(addresses(&[list]), "10.0.0.1:5064 10.0.0.2:6000");
    assert_eq!(addresses(&[list, ("EPICS_CA_SERVER_PORT", "7000")]), "10.0.0.1:7000 10.0.0.2:6000");
    assert_eq!(addresses(&[("EPICS_CA_ADDR_LIST", "localhost")]), "127.0.0.1:5064");
    assert_eq!(
        read(&[("EPICS_CA_NAME_SERVERS", "10.0.0.3")]).unwrap().name_servers,
        ["10.0.0.3:5064".parse().unwrap()]
    );
}

#[test]
fn broadcast_addresses_are_those_of_directly_connected_networks() {
    let routes = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
        eth0 00000000 0100A8C0 0003 0 0 0 00000000 0 0 0\n\
        eth0 0000A8C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n\
        eth1 0000100A 00000000 0001 0 0 0 0000F0FF 0 0 0\n\
        tun0 0100080A 00000000 0005 0 0 0 FFFFFFFF 0 0 0\n";
    let list = |auto: &'static str, routes| {
        let variable = |name: &str| (name == "EPICS_CA_AUTO_ADDR_LIST").then(|| auto.to_owned());
        let settings = Settings::from_variables(variable, routes).unwrap();
        settings.addresses.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(list("YES", Some(routes)), ["192.168.0.255:5064", "10.31.255.255:5064"]);
    assert_eq!(list("YES", None), ["255.255.255.255:5064"]);
    assert!(list("no", Some(routes)).is_empty());
}

#[test]
fn times_and_sizes_are_read() {
    let settings = read(&[
        ("EPICS_CA_CONN_TMO", "2.5"),
        ("EPICS_CA_BEACON_PERIOD", "1"),
        ("EPICS_CA_MAX_SEARCH_PERIOD", "60.0"),
        ("EPICS_CA_MAX_ARRAY_BYTES", "10000000"),
        ("EPICS_CA_REPEATER_PORT", "6065"),
    ])
    .unwrap();
    assert_eq!(settings.connection_timeout, Duration::from_millis(2_500));
    assert_eq!(settings.beacon_period, Duration::from_secs(1));
    assert_eq!(settings.max_search_period, Duration::from_secs(60));
    assert_eq!(settings.max_array_bytes, 10_000_000);
    assert_eq!(settings.repeater, Some("0.0.0.0:6065".parse().unwrap()));
}

#[test]
fn an_error_names_the_variable_its_value_and_what_is_expected() {
    let cases = [
        (
            ("EPICS_CA_ADDR_LIST", "10.0.0.1 10.0.0.2:x"),
            "EPICS_CA_ADDR_LIST: invalid value \"10.0.0.2:x\": expected addresses, HOST or HOST:PORT, separated by spaces, whose hosts have an IPv4 address",
        ),
        (("EPICS_CA_SERVER_PORT", "0"), "EPICS_CA_SERVER_PORT: invalid value \"0\": expected a port, 1 to 65535"),
        (("EPICS_CA_AUTO_ADDR_LIST", "maybe"), "EPICS_CA_AUTO_ADDR_LIST: invalid value \"maybe\": expected YES or NO"),
        (("EPICS_CA_CONN_TMO", "-1"), "EPICS_CA_CONN_TMO: invalid value \"-1\": expected seconds, 0.1 or more"),
        (("EPICS_CA_CONN_TMO", "nan"), "EPICS_CA_CONN_TMO: invalid value \"nan\": expected seconds, 0.1 or more"),
        (
            ("EPICS_CA_MAX_ARRAY_BYTES", "99"),
            "EPICS_CA_MAX_ARRAY_BYTES: invalid value \"99\": expected bytes, 16384 to 2147483647",
        ),
    ];
    for (variable, expected) in cases {
        assert_eq!(read(&[variable]).unwrap_err(), expected);
    }
}

#[test]
fn settings_of_pv_access_tell_broadcast_addresses_from_servers_and_listen_at_them() {
    let routes = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
        eth0 0000A8C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n";
    let read = |variables: &[(&str, &str)]| {
        let variable = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        pva::Settings::from_variables(variable, Some(routes))
    };
    let text =
        |addresses: &[std::net::SocketAddrV4]| addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let settings = read(&[
        ("EPICS_PVA_ADDR_LIST", "10.0.0.1 192.168.0.255 224.0.2.3:7000 10.0.0.2:6000"),
        ("EPICS_PVA_BROADCAST_PORT", "6076"),
        ("EPICS_PVA_SERVER_PORT", "6075"),
        ("EPICS_PVA_NAME_SERVERS", "10.0.0.3 10.0.0.4:1"),
        ("EPICS_PVA_CONN_TMO", "2.5"),
    ])
    .unwrap();
    assert_eq!(text(&settings.addresses), "10.0.0.1:6076 10.0.0.2:6000");
    assert_eq!(text(&settings.broadcasts), "192.168.0.255:6076 224.0.2.3:7000");
    assert_eq!(text(&settings.beacons), "192.168.0.255:6076");
    assert_eq!(text(&settings.name_servers), "10.0.0.3:6075 10.0.0.4:1");
    assert_eq!(settings.connection_timeout, Duration::from_millis(2_500));
    let settings = read(&[("EPICS_PVA_AUTO_ADDR_LIST", "NO"), ("EPICS_PVA_ADDR_LIST", "10.0.0.1")]).unwrap();
    assert_eq!(
        (text(&settings.addresses), settings.broadcasts, settings.beacons),
        ("10.0.0.1:5076".into(), vec![], vec![])
    );
    let error = read(&[("EPICS_PVA_BROADCAST_PORT", "0")]).unwrap_err().to_string();
    assert_eq!(error, "EPICS_PVA_BROADCAST_PORT: invalid value \"0\": expected a port, 1 to 65535");
}
