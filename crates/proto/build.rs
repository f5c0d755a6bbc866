//! Compiles the `.proto` files with protox, so that no `protoc` is needed.

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from("proto");
    let files = [
        "openshell/v1/openshell.proto",
        "openshell/plus/v1/plus.proto",
        "openshell/supervisor/v1/supervisor.proto",
        "openshell/link/v1/link.proto",
    ];
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(files.iter().map(|f| root.join(f)), [&root])?;
    tonic_prost_build::configure()
        .btree_map(".")
        .bytes(".openshell.link")
        .bytes(".openshell.supervisor")
        .bytes(".openshell.plus")
        .bytes(".openshell.v1.ExecSandboxStdout")
        .bytes(".openshell.v1.ExecSandboxStderr")
        .bytes(".openshell.v1.TcpForwardFrame")
        .bytes(".openshell.v1.ExecSandboxInput")
        .compile_fds(descriptors)?;
    Ok(())
}
