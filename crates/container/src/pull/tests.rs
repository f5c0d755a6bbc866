//! Lines of a pull.

use super::*;

fn message(layer: &str, status: &str, bytes: Option<(u64, u64)>) -> PullMessage {
    PullMessage {
        layer: layer.to_owned(),
        status: status.to_owned(),
        bytes,
    }
}

#[test]
fn layers_are_added_up_and_said_once() {
    let mut tally = Tally::default();
    let downloading = |layer, done| message(layer, "Downloading", Some((done, 60_000_000)));
    assert_eq!(tally.take("x", &message("", "Pulling from x", None)), None);
    assert_eq!(
        tally.take("x", &downloading("a", 1_500_000)).unwrap(),
        "pulling x (1 of 60 MB)"
    );
    assert_eq!(tally.take("x", &downloading("a", 1_600_000)), None);
    assert_eq!(
        tally.take("x", &downloading("b", 3_000_000)).unwrap(),
        "pulling x (4 of 120 MB)"
    );
    assert_eq!(
        tally
            .take("x", &message("a", "Pull complete", None))
            .unwrap(),
        "pulling x (63 of 120 MB)"
    );
}

#[test]
fn what_is_counted_is_bounded() {
    let mut tally = Tally::default();
    for layer in 0..2 * MAX_LAYERS {
        tally.take(
            "x",
            &message(&layer.to_string(), "Downloading", Some((1, 2))),
        );
    }
    assert_eq!(tally.layers.len(), MAX_LAYERS);
}
