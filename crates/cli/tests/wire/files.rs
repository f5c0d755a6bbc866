//! Upload and download.

use std::fs;

use openshell_proto::api::SandboxPhase as P;

use super::fake::Fake;

#[test]
fn what_is_uploaded_comes_back_the_same() {
    let fake = Fake::start().with("demo", P::Ready);
    let root = fake.dir.path().join("work");
    fs::create_dir_all(root.join("src/sub")).unwrap();
    fs::write(root.join("src/sub/file"), vec![5; 300_000]).unwrap();
    let src = root.join("src");

    let done = fake.run(&["sandbox", "upload", "demo", src.to_str().unwrap()]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(
        fake.world.change(|s| s.uploaded.clone()).unwrap().0,
        "/sandbox"
    );

    let dest = root.join("back");
    let done = fake.run(&["sandbox", "download", "demo", "src", dest.to_str().unwrap()]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(fs::read(dest.join("sub/file")).unwrap().len(), 300_000);

    let done = fake.run(&[
        "sandbox",
        "download",
        "demo",
        "src/.",
        root.to_str().unwrap(),
    ]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(root.join("sub/file").exists());
}

#[test]
fn an_upload_under_another_name_is_renamed_and_one_into_a_directory_is_not() {
    let fake = Fake::start().with("demo", P::Ready);
    let file = fake.dir.path().join("file");
    fs::write(&file, "x").unwrap();
    let done = fake.run(&[
        "sandbox",
        "upload",
        "demo",
        file.to_str().unwrap(),
        "sub/other",
    ]);
    assert_eq!(done.code, 0, "{done:?}");
    let (directory, bytes) = fake.world.change(|s| s.uploaded.clone()).unwrap();
    assert_eq!(directory, "/sandbox/sub");
    assert_eq!(&bytes[..5], b"other");
}

#[test]
fn a_file_that_is_not_there_changes_nothing() {
    let fake = Fake::start().with("demo", P::Ready);
    let done = fake.run(&["sandbox", "upload", "demo", "/none/such"]);
    assert_eq!(done.code, 1, "{done:?}");
    assert!(fake.world.change(|s| s.uploaded.is_none()));
    let done = fake.run(&["sandbox", "download", "demo", "nothing"]);
    assert_eq!(done.code, 3, "{done:?}");
    let done = fake.run(&["sandbox", "upload", "none", "/etc/hostname", "x"]);
    assert_eq!(done.code, 3, "{done:?}");
}
