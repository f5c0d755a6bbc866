//! `openshell-policy`: the sandbox policy: model, validation, decision.
