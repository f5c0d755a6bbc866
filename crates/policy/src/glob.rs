//! Patterns over segments: `*` is any part of one segment, `**` any segments; linear in what it reads, and never a panic.

use crate::problem::{Why, why};

/// Longer than any pattern needs to be.
const LONGEST: usize = 4096;

/// A pattern whose segments are divided by one character.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Glob {
    text: String,
    separator: char,
    segments: Vec<Segment>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Segment {
    /// `**`: any number of segments.
    Many,
    /// One segment, with `*` for any part of it.
    One(String),
}

impl Glob {
    /// Reads a pattern of a path.
    pub(crate) fn path(text: &str) -> Result<Self, Why> {
        Self::new(text, '/')
    }

    /// Reads a pattern of a value with dots: a query parameter.
    pub(crate) fn dotted(text: &str) -> Result<Self, Why> {
        Self::new(text, '.')
    }

    fn new(text: &str, separator: char) -> Result<Self, Why> {
        if text.len() > LONGEST {
            return Err(why(format!("the pattern is longer than {LONGEST} bytes")));
        }
        if let Some(odd) = text
            .chars()
            .find(|c| matches!(c, '[' | ']' | '{' | '}' | '\\'))
        {
            return Err(why(format!("`{odd}` has no meaning in a pattern"))
                .hint("`*` and `**` are all there is; write one rule for each alternative"));
        }
        if text.chars().any(char::is_control) {
            return Err(why("the pattern contains a control character"));
        }
        let mut segments: Vec<Segment> = Vec::new();
        let parts: Vec<&str> = text.split(separator).collect();
        for (index, part) in parts.iter().enumerate() {
            if *part != "**" {
                if part.contains("**") {
                    return Err(why("`**` must be a whole segment")
                        .hint(format!("write `*`, or `{separator}**{separator}`")));
                }
                segments.push(Segment::One((*part).to_owned()));
                continue;
            }
            // At the end it stands for one segment at least: `/a/**` is what is under `/a`, not `/a`.
            if index + 1 == parts.len() {
                segments.push(Segment::One("*".to_owned()));
            }
            if segments.last() != Some(&Segment::Many) {
                segments.push(Segment::Many);
            }
        }
        Ok(Self {
            text: text.to_owned(),
            separator,
            segments,
        })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is plain text: no stars.
    pub(crate) fn is_literal(&self) -> bool {
        !self.text.contains('*')
    }

    /// Whether the whole of the text fits.
    pub fn matches(&self, text: &str) -> bool {
        let mut pattern = self.segments.as_slice();
        let mut rest = Some(text);
        // Where to go on if what follows the last `**` does not fit: it takes one segment more.
        let mut again: Option<(&[Segment], Option<&str>)> = None;
        loop {
            match (pattern.split_first(), rest) {
                (None, None) => return true,
                (Some((Segment::Many, after)), _) => {
                    again = Some((after, rest));
                    pattern = after;
                    continue;
                }
                (Some((Segment::One(one), after)), Some(text)) => {
                    let (segment, next) = self.cut(text);
                    if part(one, segment) {
                        pattern = after;
                        rest = next;
                        continue;
                    }
                }
                (None, Some(_)) | (Some(_), None) => {}
            }
            let Some((after, Some(from))) = again else {
                return false;
            };
            rest = self.cut(from).1;
            again = Some((after, rest));
            pattern = after;
        }
    }

    fn cut<'t>(&self, text: &'t str) -> (&'t str, Option<&'t str>) {
        match text.split_once(self.separator) {
            Some((segment, rest)) => (segment, Some(rest)),
            None => (text, None),
        }
    }
}

/// One segment against `*`.
fn part(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            again = Some((p, t));
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((after, from)) = again {
            p = after;
            t = from + 1;
            again = Some((after, t));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests;
