//! Requests as rules see them: a method, a path in one form whatever way it was written, and parameters.

use std::fmt;

use crate::problem::{Why, why};

/// The method of a rule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Method {
    /// `*`
    Any,
    /// This one, in capitals.
    Named(String),
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

impl Method {
    /// Reads the method of a rule.
    pub(crate) fn parse(text: &str) -> Result<Self, Why> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        if text.is_empty() || text.len() > 32 || !text.bytes().all(known) {
            return Err(why(format!(
                "`{}` is not a method",
                crate::shape::short(text)
            )));
        }
        Ok(Self::Named(text.to_ascii_uppercase()))
    }

    /// Whether a rule that allows speaks of this method: as HTTP has it, capitals count.
    pub(crate) fn allows(&self, method: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Named(name) => name == method,
        }
    }

    /// Whether a rule that refuses speaks of this method: a server may not care about capitals, so they do not save it.
    pub(crate) fn denies(&self, method: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Named(name) => name.eq_ignore_ascii_case(method),
        }
    }
}

/// Why a request cannot be held against rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unclear {
    /// Not a path that begins with `/`.
    NotAPath,
    /// `.` or `..`: where it leads depends on who reads it.
    DotSegment,
    /// `%2F` without `allow_encoded_slash`.
    EncodedSlash,
    /// A control character, a backslash, or an escape that is none.
    OddCharacter,
}

impl fmt::Display for Unclear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAPath => "the request has no path that begins with /",
            Self::DotSegment => "the path contains . or .. as a segment",
            Self::EncodedSlash => "the path contains an encoded slash",
            Self::OddCharacter => {
                "the path contains a control character, a backslash or a broken escape"
            }
        })
    }
}

/// A path in the form that patterns are held against: escapes undone (but for `%2F`), no empty segment inside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestPath {
    text: String,
    encoded_slash: bool,
}

impl RequestPath {
    /// Reads the path of a request, without its query.
    pub fn parse(raw: &str) -> Result<Self, Unclear> {
        if !raw.starts_with('/') {
            return Err(Unclear::NotAPath);
        }
        let (text, encoded_slash) = unescape(raw)?;
        let mut path = String::with_capacity(text.len());
        let mut segments = text.split('/').skip(1).peekable();
        while let Some(segment) = segments.next() {
            if matches!(segment, "." | "..") {
                return Err(Unclear::DotSegment);
            }
            // Servers take `//` for `/`; an empty segment at the end is a directory and stays.
            if !segment.is_empty() || segments.peek().is_none() {
                path.push('/');
                path.push_str(segment);
            }
        }
        Ok(Self {
            text: path,
            encoded_slash,
        })
    }

    /// The form that patterns are held against.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether there is a `%2F` in it.
    pub const fn has_encoded_slash(&self) -> bool {
        self.encoded_slash
    }
}

/// Undoes escapes but those of `/`; whether there were such.
fn unescape(raw: &str) -> Result<(String, bool), Unclear> {
    if !raw.is_ascii() {
        return Err(Unclear::OddCharacter);
    }
    let mut bytes = Vec::with_capacity(raw.len());
    let mut encoded_slash = false;
    let mut rest = raw.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let byte = if byte == b'%' {
            let (digits, after) = rest.split_at_checked(2).ok_or(Unclear::OddCharacter)?;
            rest = after;
            escaped(digits).ok_or(Unclear::OddCharacter)?
        } else if matches!(byte, b'?' | b'#') {
            return Err(Unclear::OddCharacter);
        } else {
            bytes.push(byte);
            if byte.is_ascii_control() || byte == b'\\' || byte == b' ' {
                return Err(Unclear::OddCharacter);
            }
            continue;
        };
        match byte {
            b'/' => {
                encoded_slash = true;
                bytes.extend_from_slice(b"%2F");
            }
            byte if byte.is_ascii_control() || byte == b'\\' => return Err(Unclear::OddCharacter),
            byte => bytes.push(byte),
        }
    }
    let text = String::from_utf8(bytes).map_err(|_| Unclear::OddCharacter)?;
    Ok((text, encoded_slash))
}

fn escaped(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let value = digit(*digits.first()?)? * 16 + digit(*digits.get(1)?)?;
    u8::try_from(value).ok()
}

/// The parameters of a query, decoded. What is not UTF-8 keeps a sign in its place and so fits no plain pattern.
pub(crate) fn parameters(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    // Some servers divide at `;` too, but then a value that we see whole is two to them: a rule that allows must fit
    // the whole, and one that refuses is asked about both readings by its caller.
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        })
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let escape = (byte == b'%').then(|| rest.split_at_checked(2)).flatten();
        match (
            byte,
            escape.and_then(|(digits, after)| Some((escaped(digits)?, after))),
        ) {
            (_, Some((decoded, after))) => {
                bytes.push(decoded);
                rest = after;
            }
            (b'+', None) => bytes.push(b' '),
            (byte, None) => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
