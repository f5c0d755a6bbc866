//! Fuzzes the reader: any text is refused or becomes a policy that is the same after its normal form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use openshell_policy::{Engine, Policy};

fuzz_target!(|text: &str| {
    let Ok(checked) = Policy::parse(text) else {
        return;
    };
    let value = serde_json::to_value(checked.policy.document()).expect("a document is JSON");
    let again = Policy::from_value(value).expect("a normal form holds").policy;
    assert_eq!(again, checked.policy);
    assert_eq!(again.hash(), checked.policy.hash());
    let _ = Engine::new(&again);
});
