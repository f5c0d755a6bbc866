//! Tests of the schema.

use std::path::Path;

use super::*;

#[test]
fn the_schema_in_config_is_what_the_tables_give() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/policy.schema.json");
    let made = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if std::env::var_os("OPENSHELL_WRITE_SCHEMA").is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert!(
        kept == schema(),
        "config/policy.schema.json is old: run this test with OPENSHELL_WRITE_SCHEMA=1"
    );
}
