//! Random values of the schema, with only the members of a revision.

use alloc::{borrow::ToOwned, format, string::String, vec::Vec};

use arbitrary::{Result, Unstructured};
use serde_json::Number;

use super::{encode::Rule, format::Format};
use crate::{
    protocol::{ProtocolVersion, VersionSet},
    schema::{Extra, Map},
    wire::{Json, JsonObject, RequestId},
};

/// A type with random values that a revision can express: encoded for it and decoded again they are the same.
pub trait ArbitraryAt: Sized {
    /// Creates a random value. Without a revision it may have every member of the type.
    ///
    /// # Errors
    /// Returns an error if there is not enough data.
    fn arbitrary_at(u: &mut Unstructured<'_>, version: Option<ProtocolVersion>) -> Result<Self>;

    #[doc(hidden)]
    #[allow(private_interfaces, reason = "formats are described by the schema, not by its users")]
    fn arbitrary_as(u: &mut Unstructured<'_>, version: Option<ProtocolVersion>, _format: Format) -> Result<Self> {
        Self::arbitrary_at(u, version)
    }
}

pub(crate) fn required<T: ArbitraryAt>(
    u: &mut Unstructured<'_>,
    version: Option<ProtocolVersion>,
    rule: &Rule<T>,
) -> Result<T> {
    for _ in 0..8 {
        let value = one(u, version, rule)?;
        if version.is_none_or(|version| rule.admits(&value, version)) {
            return Ok(value);
        }
    }
    Err(arbitrary::Error::IncorrectFormat)
}

fn one<T: ArbitraryAt>(u: &mut Unstructured<'_>, version: Option<ProtocolVersion>, rule: &Rule<T>) -> Result<T> {
    match rule.format() {
        Some(format) => T::arbitrary_as(u, version, format),
        None => T::arbitrary_at(u, version),
    }
}

pub(crate) fn optional<T: ArbitraryAt>(
    u: &mut Unstructured<'_>,
    version: Option<ProtocolVersion>,
    rule: &Rule<T>,
) -> Result<Option<T>> {
    let must = version.is_some_and(|version| rule.must_be_there(version));
    if version.is_some_and(|version| !rule.versions().contains(version)) || !(must || u.ratio(2, 5)?) {
        return Ok(None);
    }
    let value = one(u, version, rule)?;
    if version.is_none_or(|version| rule.admits(&value, version)) {
        Ok(Some(value))
    } else {
        Ok(rule.fallback().filter(|_| must).map(|fallback| fallback()))
    }
}

/// Returns `value`, if the revision admits it.
pub(crate) fn admitted<T>(mut value: T, version: Option<ProtocolVersion>, rule: &Rule<T>) -> Result<T> {
    rule.mend(&mut value);
    if version.is_none_or(|version| !rule.versions().contains(version) || rule.admits(&value, version)) {
        Ok(value)
    } else {
        Err(arbitrary::Error::IncorrectFormat)
    }
}

pub(crate) fn nullable<T: ArbitraryAt>(
    u: &mut Unstructured<'_>,
    version: Option<ProtocolVersion>,
    rule: &Rule<T>,
) -> Result<Option<T>> {
    if u.arbitrary()? { required(u, version, rule).map(Some) } else { Ok(None) }
}

/// Creates members that no type has.
pub(crate) fn extra(u: &mut Unstructured<'_>) -> Result<Extra> {
    let mut extra = Extra::new();
    while extra.len() < 3 && u.ratio(1, 8)? {
        extra.push(&format!("x-{}", text(u)?), json(u, 2)?.get());
    }
    Ok(extra)
}

type Variant<T> = (VersionSet, fn(&mut Unstructured<'_>, Option<ProtocolVersion>) -> Result<T>);

/// Creates one of several kinds of objects that the revision has.
pub(crate) fn one_of<T>(
    u: &mut Unstructured<'_>,
    version: Option<ProtocolVersion>,
    variants: &[Variant<T>],
) -> Result<T> {
    let usable: Vec<_> =
        variants.iter().filter(|(versions, _)| version.is_none_or(|version| versions.contains(version))).collect();
    u.choose(&usable)?.1(u, version)
}

/// Creates a short text from difficult pieces: quotes, escapes, control characters, several bytes, the empty text.
fn text(u: &mut Unstructured<'_>) -> Result<String> {
    const PIECES: [&str; 16] =
        ["a", "b", "c", "tool", "word ", "\"", "\\", "/", "\n", "\u{0}", "\u{7f}", "é", "漢", "🦀", "\u{2028}", "{}"];
    let mut text = String::new();
    for _ in 0..u.int_in_range(0..=6)? {
        text.push_str(u.choose(&PIECES)?);
    }
    Ok(text)
}

fn number(u: &mut Unstructured<'_>) -> Result<Number> {
    let number = match u.int_in_range(0..=5)? {
        0 => Number::from(u.arbitrary::<u64>()?),
        1 => Number::from(u.arbitrary::<i64>()?),
        2 => Number::from(u.int_in_range(0..=100)?),
        3 => Number::from(1_u64 << 63),
        4 => return Ok(Number::from_f64(1e-320).unwrap_or_else(|| Number::from(0))),
        _ => return Ok(Number::from_f64(u.arbitrary::<f64>()?).unwrap_or_else(|| Number::from(0))),
    };
    Ok(number)
}

/// Creates any JSON value, in any spelling.
fn json(u: &mut Unstructured<'_>, depth: u8) -> Result<Json> {
    let text = spell(u, depth)?;
    Ok(Json::parse(text).unwrap_or_else(|_| JsonObject::empty().into()))
}

fn spell(u: &mut Unstructured<'_>, depth: u8) -> Result<String> {
    Ok(match u.int_in_range(0..=if depth == 0 { 3 } else { 5 })? {
        0 => "null".to_owned(),
        1 => u.choose(&["true", "false"]).copied()?.to_owned(),
        2 => u.choose(&["0", "-0", "1.0", "1e2", "1.50", "9223372036854775808", "1e-320"]).copied()?.to_owned(),
        3 => quoted(u)?,
        4 => {
            let items: Vec<_> = (0..u.int_in_range(0..=2)?).map(|_| spell(u, depth - 1)).collect::<Result<_>>()?;
            format!("[ {}]", items.join(" ,"))
        }
        _ => spell_object(u, depth)?,
    })
}

pub(crate) fn spell_object(u: &mut Unstructured<'_>, depth: u8) -> Result<String> {
    let members: Vec<_> = (0..u.int_in_range(0..=2)?)
        .map(|at| Ok(format!("\"{at}\" : {}", spell(u, depth.saturating_sub(1))?)))
        .collect::<Result<_>>()?;
    Ok(format!("{{{}}}", members.join(", ")))
}

fn quoted(u: &mut Unstructured<'_>) -> Result<String> {
    let text = text(u)?;
    Ok(Json::new(&text).map_or_else(|_| "\"\"".to_owned(), |json| json.get().to_owned()))
}

impl ArbitraryAt for String {
    fn arbitrary_at(u: &mut Unstructured<'_>, _version: Option<ProtocolVersion>) -> Result<Self> {
        text(u)
    }

    #[allow(private_interfaces, reason = "see the trait")]
    fn arbitrary_as(u: &mut Unstructured<'_>, version: Option<ProtocolVersion>, format: Format) -> Result<Self> {
        let number: u16 = u.arbitrary()?;
        Ok(match format {
            Format::Uri => format!("{}://host/{number}", u.choose(&["file", "https", "data", "note", "x+y-z.1"])?),
            Format::UriTemplate => format!("note://{{user}}/{number}{{?q}}"),
            Format::FileUri => format!("file:///home/{number}"),
            Format::Base64 => {
                let mut text = u.choose(&["", "aGk=", "aA==", "+/+/"]).copied()?.to_owned();
                text.insert_str(0, &"0aZ/".repeat(usize::from(number % 4)));
                text
            }
            Format::MediaType => format!("x-{number}/{}", u.choose(&["a", "b+json", "c; d=e"])?),
            Format::Timestamp => format!("2025-11-25T{:02}:{:02}:00Z", number % 24, number % 60),
            Format::Digest => format!("sha256:{:064x}", number),
            Format::Fraction | Format::ObjectSchema | Format::Answer => return Self::arbitrary_at(u, version),
        })
    }
}

impl ArbitraryAt for bool {
    fn arbitrary_at(u: &mut Unstructured<'_>, _version: Option<ProtocolVersion>) -> Result<Self> {
        u.arbitrary()
    }
}

impl ArbitraryAt for i64 {
    fn arbitrary_at(u: &mut Unstructured<'_>, _version: Option<ProtocolVersion>) -> Result<Self> {
        u.arbitrary()
    }
}

impl ArbitraryAt for u64 {
    fn arbitrary_at(u: &mut Unstructured<'_>, _version: Option<ProtocolVersion>) -> Result<Self> {
        u.arbitrary()
    }
}

impl ArbitraryAt for Number {
    fn arbitrary_at(u: &mut Unstructured<'_>, _version: Option<ProtocolVersion>) -> Result<Self> {
        number(u)
    }

    #[allow(private_interfaces, reason = "see the trait")]
    fn arbitrary_as(u: &mut Unstructured<'_>, version: Option<ProtocolVersion>, format: Format) -> Result<Self> {
        if format != Format::Fraction {
            return Self::arbitrary_at(u, version);
        }
        let whole = u.choose(&[0_u8, 1]).copied()?;
        Ok(if u.arbitrary()? {
            Self::from(whole)
        } else {
            Self::from_f64(f64::from(u.arbitrary::<u8>()?) / 255.0).unwrap_or_else(|| Self::from(whole))
        })
    }
}

impl ArbitraryAt for RequestId {
    fn arbitrary_at(u: &mut Unstructured<'_>, _version: Option<ProtocolVersion>) -> Result<Self> {
        Ok(if u.arbitrary()? { Self::from(u.arbitrary::<u64>()?) } else { Self::from(text(u)?.as_str()) })
    }
}

impl ArbitraryAt for Json {
    fn arbitrary_at(u: &mut Unstructured<'_>, _version: Option<ProtocolVersion>) -> Result<Self> {
        json(u, 3)
    }
}

impl<T: ArbitraryAt> ArbitraryAt for Vec<T> {
    fn arbitrary_at(u: &mut Unstructured<'_>, version: Option<ProtocolVersion>) -> Result<Self> {
        (0..u.int_in_range(0..=3)?).map(|_| T::arbitrary_at(u, version)).collect()
    }
}

impl ArbitraryAt for Extra {
    fn arbitrary_at(u: &mut Unstructured<'_>, version: Option<ProtocolVersion>) -> Result<Self> {
        Map::<Json>::arbitrary_at(u, version).map(Self::from_iter)
    }
}

impl<V: ArbitraryAt> ArbitraryAt for Map<V> {
    fn arbitrary_at(u: &mut Unstructured<'_>, version: Option<ProtocolVersion>) -> Result<Self> {
        (0..u.int_in_range(0..=3)?).map(|at| Ok((format!("{at}{}", text(u)?), V::arbitrary_at(u, version)?))).collect()
    }

    #[allow(private_interfaces, reason = "see the trait")]
    fn arbitrary_as(u: &mut Unstructured<'_>, version: Option<ProtocolVersion>, format: Format) -> Result<Self> {
        let mut member = |at| Ok((format!("{at}{}", text(u)?), V::arbitrary_as(u, version, format)?));
        (0..2).map(&mut member).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u32) -> Vec<u8> {
        let at = |at: u32| (seed.wrapping_mul(97).wrapping_add(at).wrapping_mul(2_654_435_761) >> 13) as u8;
        (0..64).map(at).collect()
    }

    #[test]
    fn random_json_is_of_all_kinds() {
        let random = |seed| json(&mut Unstructured::new(&noise(seed)), 2).expect("there is enough");
        let all: Vec<Json> = (0..1000).map(random).collect();
        for first in ['n', 't', 'f', '-', '1', '"', '[', '{'] {
            let count = all.iter().filter(|json| json.get().starts_with(first)).count();
            assert!(count > 5, "{first}: {count}");
        }
    }

    #[test]
    fn random_numbers_are_of_all_kinds() {
        let random = |seed| number(&mut Unstructured::new(&noise(seed))).expect("there is enough");
        let all: Vec<Number> = (0..1000).map(random).collect();
        type Kind = fn(&Number) -> bool;
        let kinds: [(&str, Kind); 6] = [
            ("large", |number| number.as_u64().is_some_and(|it| it > 1 << 63)),
            ("negative", |number| number.as_i64().is_some_and(|it| it < 0)),
            ("small", |number| number.as_u64().is_some_and(|it| it <= 100)),
            ("the first without a sign", |number| number.as_u64() == Some(1 << 63)),
            ("the smallest", |number| number.is_f64() && number.as_f64() == Some(1e-320)),
            ("of floating point", |number| number.is_f64() && number.as_f64() != Some(1e-320)),
        ];
        for (name, is_it) in kinds {
            let count = all.iter().filter(|number| is_it(number)).count();
            assert!(count > 20, "{name}: {count}");
        }
    }
}
