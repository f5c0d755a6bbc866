//! `openshell-supervisor`: the supervisor: gateway session, link, egress.

fn main() {}
