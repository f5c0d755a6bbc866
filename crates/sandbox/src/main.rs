//! `openshell-sandbox`: the sandbox runtime: PID 1 of the workload.

fn main() {}
