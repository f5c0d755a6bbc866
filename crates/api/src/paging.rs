//! Pages of ordered lists, with opaque tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;
use tonic::Status;

use crate::status::invalid;

const DEFAULT: usize = 100;
const MAX: usize = 1000;

/// The place of an item in its list: workspace, name.
pub(crate) type Key = (String, String);

/// Which page was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Page {
    size: usize,
    after: Option<Key>,
}

impl Page {
    /// Reads `page_size` and `page_token`.
    pub(crate) fn parse(size: i32, token: &str) -> Result<Self, Status> {
        let size = match usize::try_from(size) {
            Err(_) => return Err(invalid("page_size", "must not be negative")),
            Ok(0) => DEFAULT,
            Ok(n) => n.min(MAX),
        };
        let after =
            if token.is_empty() {
                None
            } else {
                Some(decode(token).ok_or_else(|| {
                    invalid("page_token", "is not one that this gateway gave out")
                })?)
            };
        Ok(Self { size, after })
    }

    /// Cuts the page out of items ordered by key; answers with the next token, empty at the end. What was
    /// added or removed meanwhile moves nobody to another page.
    pub(crate) fn cut<T>(
        &self,
        items: impl IntoIterator<Item = T>,
        key: impl Fn(&T) -> Key,
    ) -> (Vec<T>, String) {
        let mut rest = items
            .into_iter()
            .filter(|item| self.after.as_ref().is_none_or(|after| key(item) > *after));
        let page: Vec<T> = rest.by_ref().take(self.size).collect();
        let token = match (rest.next(), page.last()) {
            (Some(_), Some(last)) => encode(&key(last)),
            _ => String::new(),
        };
        (page, token)
    }
}

fn encode((workspace, name): &Key) -> String {
    B64.encode(format!("1/{workspace}/{name}"))
}

fn decode(token: &str) -> Option<Key> {
    if token.len() > 256 {
        return None;
    }
    let text = String::from_utf8(B64.decode(token).ok()?).ok()?;
    let (workspace, name) = text.strip_prefix("1/")?.split_once('/')?;
    Some((workspace.to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests;
