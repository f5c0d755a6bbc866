//! SPDX licence expressions: whether what we accept satisfies one.

use std::collections::BTreeSet;

/// Whether the accepted licences satisfy the expression. What cannot be read is not satisfied.
pub(crate) fn satisfied(expression: &str, accepted: &BTreeSet<String>) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader {
        words: &words,
        accepted,
    };
    reader.either() == Some(true) && reader.words.is_empty()
}

struct Reader<'a> {
    words: &'a [&'a str],
    accepted: &'a BTreeSet<String>,
}

impl Reader<'_> {
    fn next_is(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    fn either(&mut self) -> Option<bool> {
        let mut holds = self.both()?;
        while self.next_is("OR") {
            holds |= self.both()?;
        }
        Some(holds)
    }

    fn both(&mut self) -> Option<bool> {
        let mut holds = self.one()?;
        while self.next_is("AND") {
            holds &= self.one()?;
        }
        Some(holds)
    }

    fn one(&mut self) -> Option<bool> {
        if self.next_is("(") {
            let holds = self.either();
            return self.next_is(")").then_some(holds?);
        }
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        let mut name = (*first).to_owned();
        if self.next_is("WITH") {
            let (exception, rest) = self.words.split_first()?;
            self.words = rest;
            name = format!("{name} WITH {exception}");
        }
        Some(self.accepted.contains(&name))
    }
}

#[cfg(test)]
mod tests;
