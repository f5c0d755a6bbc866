//! Whom a workload runs as: an image's `USER` made numeric, never root.

use openshell_core::bootstrap::DEFAULT_WORKLOAD_UID;
use serde::Serialize;

/// A numeric user and group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
pub struct UserIds {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl UserIds {
    /// Where the image names nobody, or root.
    pub const DEFAULT: Self = Self {
        uid: DEFAULT_WORKLOAD_UID,
        gid: DEFAULT_WORKLOAD_UID,
    };

    /// As containers are configured: `1000:1000`.
    pub fn parse(user: &str) -> Option<Self> {
        let (uid, gid) = user.split_once(':')?;
        Some(Self {
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
        })
    }
}

impl std::fmt::Display for UserIds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.uid, self.gid)
    }
}

/// What an image's `USER` says by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ImageUser {
    /// Settled without looking into the image.
    Known(UserIds),
    /// Names, or a user without a group: the image's `/etc/passwd` and `/etc/group` decide.
    NeedsFiles {
        /// Name or number.
        user: String,
        /// Name or number.
        group: Option<String>,
    },
}

/// Reads an image's `USER`.
pub fn image_user(user: &str) -> ImageUser {
    let user = user.trim();
    let (name, group) = match user.split_once(':') {
        Some((name, group)) if !group.is_empty() => (name, Some(group)),
        Some((name, _)) => (name, None),
        None => (user, None),
    };
    if name.is_empty() || name == "root" || name.parse() == Ok(0u32) {
        return ImageUser::Known(UserIds::DEFAULT);
    }
    if let (Ok(uid), Some(Ok(gid))) = (name.parse(), group.map(str::parse)) {
        return ImageUser::Known(UserIds { uid, gid });
    }
    ImageUser::NeedsFiles {
        user: name.to_owned(),
        group: group.map(str::to_owned),
    }
}

/// Settles a user by the contents of the image's files; either may be empty. The error is for people.
pub fn resolve(
    user: &str,
    group: Option<&str>,
    passwd: &str,
    groups: &str,
) -> Result<UserIds, String> {
    let numeric: Option<u32> = user.parse().ok();
    let entry = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let uid: u32 = fields.nth(1)?.parse().ok()?;
        let gid: u32 = fields.next()?.parse().ok()?;
        (name == user || numeric == Some(uid)).then_some((uid, gid))
    });
    let (uid, own_gid) = match (entry, numeric) {
        (Some(entry), _) => entry,
        (None, Some(uid)) => (uid, uid),
        (None, None) => {
            return Err(format!(
                "its USER {user:?} is not in the image's /etc/passwd; use a numeric USER or add the user to the image"
            ));
        }
    };
    if uid == 0 {
        return Ok(UserIds::DEFAULT);
    }
    let gid = match group {
        None => own_gid,
        Some(group) => match group.parse() {
            Ok(gid) => gid,
            Err(_) => groups
                .lines()
                .find_map(|line| {
                    let mut fields = line.split(':');
                    let name = fields.next()?;
                    let gid: u32 = fields.nth(1)?.parse().ok()?;
                    (name == group).then_some(gid)
                })
                .ok_or_else(|| {
                    format!(
                        "the group {group:?} of its USER is not in the image's /etc/group; use a numeric group or add it to the image"
                    )
                })?,
        },
    };
    Ok(UserIds { uid, gid })
}

#[cfg(test)]
mod tests;
