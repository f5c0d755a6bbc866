//! Paths of uploads and downloads.

use super::*;

#[test]
fn paths_lie_in_the_working_directory_after_normalisation() {
    for (text, path) in [
        ("", "/sandbox"),
        ("a/b", "/sandbox/a/b"),
        ("/sandbox", "/sandbox"),
        ("/sandbox/./a//../b/", "/sandbox/b"),
        ("../sandbox/x", "/sandbox/x"),
    ] {
        assert_eq!(inside("path", text).unwrap(), Path::new(path), "{text}");
    }
    for text in [
        "/",
        "..",
        "/etc/passwd",
        "/sandbox/..",
        "a/../../etc",
        "/sandboxed",
        "/sandbox/../sandbox2",
        "a\0",
        &"a".repeat(5000),
    ] {
        let e = inside("path", text).unwrap_err();
        assert_eq!(e.code(), tonic::Code::InvalidArgument, "{text}");
    }
}
