//! What a create asks for.

use super::*;

#[test]
fn limits_travel_as_written_and_only_if_given() {
    assert_eq!(limits(None, None), None);
    let limits = limits(Some("500m"), None).unwrap();
    let Some(Kind::StructValue(inner)) = &limits.fields["limits"].kind else {
        panic!("limits is a struct");
    };
    assert_eq!(inner.fields.len(), 1);
    assert_eq!(
        inner.fields["cpu"].kind,
        Some(Kind::StringValue("500m".into()))
    );
}
