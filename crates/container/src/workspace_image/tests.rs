//! One image for each user.

use super::*;

#[test]
fn each_user_has_an_image_of_its_own_which_is_the_same_every_time() {
    let tag = |uid| {
        let image = workspace_image("amd64", UserIds { uid, gid: 1 }).unwrap();
        image.tag().to_owned()
    };
    assert_eq!(tag(5), tag(5));
    assert_ne!(tag(5), tag(6));
}
