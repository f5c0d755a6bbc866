//! `openshell-gateway`: the gateway: configuration, composition, signals.

mod config;

fn main() {}
