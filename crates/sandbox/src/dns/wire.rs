//! Just enough of DNS: one question read strictly, one answer written. Pure.

use std::net::IpAddr;

/// Address records.
pub(super) const A: u16 = 1;
pub(super) const AAAA: u16 = 28;
const HEADER: usize = 12;
const MAX_NAME: usize = 253;

/// What an answer says beside its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    Ok = 0,
    Malformed = 1,
    Failed = 2,
    NoSuchName = 3,
    NotImplemented = 4,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// Lower case, without the last dot.
    pub(super) name: String,
    /// Which records.
    pub(super) record_type: u16,
    /// Where it ends in the query.
    end: usize,
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Reads a query. An error is the code to answer with; `None` for what is no query at all.
pub(super) fn parse(query: &[u8]) -> Option<Result<Question, Code>> {
    let flags = number(query, 2)?;
    query.get(..HEADER)?;
    // An answer is never answered: that would be a loop.
    if flags & 0x8000 != 0 {
        return None;
    }
    if flags & 0x7800 != 0 {
        return Some(Err(Code::NotImplemented));
    }
    if number(query, 4)? != 1 {
        return Some(Err(Code::Malformed));
    }
    Some(question(query).ok_or(Code::Malformed))
}

fn question(query: &[u8]) -> Option<Question> {
    let mut at = HEADER;
    let mut name = String::new();
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        // Longer means a pointer, which no question needs.
        if length > 63 {
            return None;
        }
        let label = query.get(at..at + length)?;
        if !label
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.extend(label.iter().map(|b| char::from(b.to_ascii_lowercase())));
        if name.len() > MAX_NAME {
            return None;
        }
        at += length;
    }
    let record_type = number(query, at)?;
    let class = number(query, at + 2)?;
    (class == 1).then_some(Question {
        name,
        record_type,
        end: at + 4,
    })
}

/// Writes an answer to a query of which at least the header was read.
pub(super) fn answer(
    query: &[u8],
    question: Option<&Question>,
    code: Code,
    addresses: &[IpAddr],
    ttl: u32,
) -> Vec<u8> {
    let records: Vec<Vec<u8>> = addresses
        .iter()
        .filter_map(|ip| match (ip, question?.record_type) {
            (IpAddr::V4(ip), A) => Some(ip.octets().to_vec()),
            (IpAddr::V6(ip), AAAA) => Some(ip.octets().to_vec()),
            _ => None,
        })
        .take(16)
        .collect();
    let mut out = query.get(..2).unwrap_or(&[0, 0]).to_vec();
    // An answer, recursion as asked and available.
    let asked = query.get(2).copied().unwrap_or(0) & 0x01;
    out.push(0x80 | asked);
    out.push(0x80 | code as u8);
    for count in [usize::from(question.is_some()), records.len(), 0, 0] {
        out.extend(u16::try_from(count).unwrap_or(0).to_be_bytes());
    }
    let Some(question) = question else { return out };
    out.extend(query.get(HEADER..question.end).unwrap_or_default());
    for data in records {
        // The name is the question's, which begins behind the header.
        out.extend([0xc0, 0x0c]);
        out.extend(question.record_type.to_be_bytes());
        out.extend(1u16.to_be_bytes());
        out.extend(ttl.to_be_bytes());
        out.extend(u16::try_from(data.len()).unwrap_or(0).to_be_bytes());
        out.extend(data);
    }
    out
}
