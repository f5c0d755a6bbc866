//! `openshell`: the openshell command line.

fn main() {}
