//! `openshell-gateway`: the gateway: configuration, composition, signals.

mod config;
mod pki;

fn main() {}
