//! Which quantities are understood, and which are refused.

use super::*;

#[test]
fn quantities_are_read_as_people_write_them() {
    assert_eq!("500m".parse(), Ok(MilliCpu(500)));
    assert_eq!("1.5".parse(), Ok(MilliCpu(1500)));
    assert_eq!("2".parse(), Ok(MilliCpu(2000)));
    assert_eq!("512Mi".parse(), Ok(Bytes(512 << 20)));
    assert_eq!("1.5Gi".parse(), Ok(Bytes(3 << 29)));
    assert_eq!("2G".parse(), Ok(Bytes(2_000_000_000)));
    assert_eq!("1073741824".parse(), Ok(Bytes(1 << 30)));
}

#[test]
fn what_is_read_is_written_back() {
    for s in ["500m", "2"] {
        assert_eq!(s.parse::<MilliCpu>().unwrap().to_string(), s);
    }
    for s in ["512Mi", "2Gi", "10000001"] {
        assert_eq!(s.parse::<Bytes>().unwrap().to_string(), s);
    }
}

#[test]
fn zero_negative_huge_and_misspelt_are_refused() {
    for s in [
        "0", "-1", "0m", "", "m", "1,5", "two", "1e9", "99999999", "1.2345", "0.5m", "NaN", "1m",
        "1\0",
    ] {
        assert!(s.parse::<MilliCpu>().is_err(), "{s:?}");
    }
    for s in [
        "0",
        "-1Gi",
        "",
        "Gi",
        "1Gb",
        "2 Gi",
        "1024Ti",
        "12",
        "999999999999999999999999999999",
        "1\u{663}",
    ] {
        assert!(s.parse::<Bytes>().is_err(), "{s:?}");
    }
}
