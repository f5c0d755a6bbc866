//! `openshell-gateway`: the gateway: configuration, composition, signals.

fn main() {}
