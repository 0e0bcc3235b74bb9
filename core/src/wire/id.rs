//! Request ids, kept as they were spelled.

use alloc::{string::String, vec::Vec};
use core::{
    fmt,
    hash::{Hash, Hasher},
};

use serde_core::{Deserialize, Deserializer, Serialize, Serializer, de};
use smallvec::SmallVec;

use super::{Json, reader::RawText, string_scan::short_digits};

/// The id of a request: a JSON string or an integer (specification, base protocol, requests).
///
/// The id keeps its spelling and is echoed byte for byte. Two ids are equal if they have the same type and value: `1`
/// and `1.0` are equal, `1` and `"1"` are not. The type does not implement `Display`, since an id that is converted to
/// a string by accident would lose its type.
#[derive(Clone)]
pub struct RequestId {
    /// The JSON token.
    text: SmallVec<[u8; 40]>,
    form: Form,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Digits with an optional minus sign: equal values are equal texts.
    Integer,
    /// An integral number in another spelling, such as `1.0`, `1e2` or `-0`.
    Number,
    /// A string without escapes.
    String,
    /// A string with escapes.
    Escaped,
}

/// The most digits of an integer that is spelled with an exponent or a fraction. Bounds the expansion of `1e999999999`.
const MAX_DIGITS: usize = 64;

impl RequestId {
    /// The maximum length of an accepted id, in bytes of its JSON text.
    pub const MAX_LEN: usize = 1024;

    /// Creates the id whose JSON text is `token`. Returns `None` if that is neither a string nor an integer, or is
    /// longer than [`MAX_LEN`](Self::MAX_LEN).
    ///
    /// `token` is one valid JSON value without white space around it.
    pub(crate) fn from_token(token: &str) -> Option<Self> {
        // Most ids are short integers.
        if let [b'1'..=b'9', ..] = token.as_bytes()
            && let Some(digits) = short_digits(token.as_bytes())
        {
            let mut text = [0; 40];
            text[..digits.len()].copy_from_slice(&digits);
            return Some(Self { text: SmallVec::from_buf_and_len(text, token.len()), form: Form::Integer });
        }
        let form = match token.as_bytes() {
            [b'"', inner @ .., _] => {
                if inner.contains(&b'\\') {
                    Form::Escaped
                } else {
                    Form::String
                }
            }
            b"-0" => Form::Number,
            [b'-' | b'0'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit) => Form::Integer,
            [b'-' | b'0'..=b'9', ..] => integral(token).map(|_| Form::Number)?,
            _ => return None,
        };
        (token.len() <= Self::MAX_LEN).then(|| Self { text: SmallVec::from_slice(token.as_bytes()), form })
    }

    /// Returns the JSON text, exactly as received.
    #[must_use]
    pub fn as_json(&self) -> &str {
        core::str::from_utf8(&self.text).unwrap_or_default()
    }

    /// Returns the JSON text as bytes, without checking again that it is UTF-8.
    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// Returns the number, if the id is an integer that fits.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match self.form {
            Form::Integer => self
                .text
                .iter()
                .try_fold(0_u64, |number, digit| number.checked_mul(10)?.checked_add(digit.checked_sub(b'0')?.into())),
            Form::Number => integral(self.as_json())?.parse().ok(),
            Form::String | Form::Escaped => None,
        }
    }

    /// Returns the number, if the id is an integer that fits.
    pub(crate) fn as_i64(&self) -> Option<i64> {
        match self.form {
            Form::Integer => self.as_json().parse().ok(),
            Form::Number => integral(self.as_json())?.parse().ok(),
            Form::String | Form::Escaped => None,
        }
    }

    /// Returns the text, if the id is a string. A string with half of a surrogate pair has none.
    #[must_use]
    pub fn as_text(&self) -> Option<String> {
        match self.form {
            Form::Integer | Form::Number => None,
            Form::String | Form::Escaped => serde_json::from_str(self.as_json()).ok(),
        }
    }

    /// Returns the id of the other type with the same text, as a gateway produces that mixes the types up.
    ///
    /// Only the canonical decimal spelling has one: `"7"` and `7`, but not `"07"` or `7.0`.
    pub(crate) fn retyped(&self) -> Option<Self> {
        let other = match self.form {
            Form::Integer => alloc::format!("\"{}\"", self.as_json()),
            Form::String => String::from(self.as_json().trim_matches('"')),
            Form::Number | Form::Escaped => return None,
        };
        let number = other.trim_matches('"');
        let digits = number.strip_prefix('-').unwrap_or(number);
        let canonical = digits == "0" && !self.as_json().contains('-')
            || !digits.starts_with('0') && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if canonical { Self::from_token(&other) } else { None }
    }

    /// Returns type and value in a canonical form: equal ids give equal bytes.
    fn canonical(&self) -> SmallVec<[u8; 40]> {
        match self.form {
            Form::Integer | Form::String => self.text.clone(),
            Form::Number => integral(self.as_json()).map_or_else(|| self.text.clone(), |text| text.into_bytes().into()),
            // An escape that encodes no character (a lone surrogate) has no other spelling.
            Form::Escaped => {
                self.as_text().map_or_else(|| self.text.clone(), |text| [b"\"", text.as_bytes(), b"\""].concat().into())
            }
        }
    }
}

/// Returns the decimal digits of a JSON number in any spelling, or `None` if it has a fraction or more than 64 digits.
fn integral(number: &str) -> Option<String> {
    let (negative, rest) = number.strip_prefix('-').map_or((false, number), |rest| (true, rest));
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, "0"),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let significant: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    let leading_zeros = significant.iter().take_while(|digit| **digit == b'0').count();
    if leading_zeros == significant.len() {
        return Some(String::from("0"));
    }
    let exponent: i64 = exponent.strip_prefix('+').unwrap_or(exponent).parse().ok()?;
    // The decimal point is after this many of the significant digits.
    let point = usize::try_from(exponent.checked_add(i64::try_from(whole.len()).ok()?)?).ok()?;
    if point.saturating_sub(leading_zeros) > MAX_DIGITS {
        return None;
    }
    let (integer, fraction) = significant.split_at(point.min(significant.len()));
    if fraction.iter().any(|digit| *digit != b'0') {
        return None;
    }
    let mut text = String::from(if negative { "-" } else { "" });
    text.extend(integer.iter().skip(leading_zeros).map(|digit| char::from(*digit)));
    text.extend(core::iter::repeat_n('0', point.saturating_sub(significant.len())));
    Some(text)
}

impl PartialEq for RequestId {
    fn eq(&self, other: &Self) -> bool {
        if self.form == other.form && matches!(self.form, Form::Integer | Form::String) {
            self.text == other.text
        } else {
            self.canonical() == other.canonical()
        }
    }
}

impl Eq for RequestId {}

impl Hash for RequestId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.form {
            Form::Integer | Form::String => state.write(&self.text),
            Form::Number | Form::Escaped => state.write(&self.canonical()),
        }
    }
}

impl From<u64> for RequestId {
    fn from(number: u64) -> Self {
        Self { text: SmallVec::from_slice(itoa::Buffer::new().format(number).as_bytes()), form: Form::Integer }
    }
}

impl From<&str> for RequestId {
    /// Creates a string id. A receiver refuses an id that is longer than [`RequestId::MAX_LEN`].
    fn from(text: &str) -> Self {
        let token = serde_json::to_string(text).unwrap_or_default();
        let form = if token.contains('\\') { Form::Escaped } else { Form::String };
        Self { text: SmallVec::from_slice(token.as_bytes()), form }
    }
}

impl Serialize for RequestId {
    /// Writes the id as it was spelled.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Json::parse(self.as_json()).map_err(serde_core::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let RawText(token) = RawText::deserialize(deserializer)?;
        Self::from_token(&token).ok_or_else(|| de::Error::custom("expected a string or an integer"))
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_json())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::hash::BuildHasher;
    use foldhash::fast::FixedState;

    fn id(token: &str) -> RequestId {
        RequestId::from_token(token).unwrap_or_else(|| panic!("{token} is an id"))
    }

    // req: BASE-003 BASE-005 BASE-008
    #[test]
    fn valid_ids_keep_their_spelling() {
        let ids = [
            "0",
            "-1",
            "1",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "18446744073709551615",
            "340282366920938463463374607431768211456",
            "1.0",
            "1e0",
            "1E+2",
            "-0",
            "-0.0",
            "1200e-2",
            "\"\"",
            "\"1\"",
            "\"\u{e9}\"",
            "\"\\u00e9\"",
            "\"\\ud800\"",
            "\"07\"",
        ];
        for token in ids {
            assert_eq!(id(token).as_json(), token);
            assert_eq!(id(token), id(token));
        }
        for token in ["1.5", "1e-1", "0.1", "1e999999999999999999999", "1e65", "null", "true", "[]", "{}"] {
            assert!(RequestId::from_token(token).is_none(), "{token}");
        }
        assert!(RequestId::from_token(&alloc::format!("\"{}\"", "x".repeat(RequestId::MAX_LEN))).is_none());
    }

    #[test]
    fn equality_is_by_type_and_value() {
        let classes: [&[&str]; 9] = [
            &["1", "1.0", "1e0", "10e-1", "0.1e1"],
            &["\"1\"", "\"\\u0031\""],
            &["0", "-0", "0.0", "0e5", "-0.0e-3"],
            &["\"0\""],
            &["\"\""],
            &["100", "1e2", "1E2", "1e+2", "100.00"],
            &["-7", "-7.0"],
            &["\"\u{e9}\"", "\"\\u00e9\"", "\"\\u00E9\""],
            &["\"\\ud800\""],
        ];
        let state = FixedState::with_seed(7);
        for (i, a) in classes.iter().enumerate().flat_map(|(i, class)| class.iter().map(move |token| (i, id(token)))) {
            for (j, b) in classes.iter().enumerate().flat_map(|(j, class)| class.iter().map(move |t| (j, id(t)))) {
                assert_eq!(a == b, i == j, "{a:?} {b:?}");
                assert_eq!(state.hash_one(&a) == state.hash_one(&b), i == j, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn retypes_only_canonical_decimal_ids() {
        assert_eq!(id("\"7\"").retyped(), Some(id("7")));
        assert_eq!(id("7").retyped(), Some(id("\"7\"")));
        assert_eq!(id("\"-7\"").retyped(), Some(id("-7")));
        assert_eq!(id("\"0\"").retyped(), Some(id("0")));
        for token in [
            "\"--5\"",
            "\"-\"",
            "\"--0\"",
            "\"07\"",
            "7.0",
            "\"7.0\"",
            "\"\"",
            "\"-\"",
            "\"-0\"",
            "\"a\"",
            "\"\\u0037\"",
            "\" 7\"",
        ] {
            assert_eq!(id(token).retyped(), None, "{token}");
        }
    }

    #[test]
    fn ids_convert_from_numbers_and_strings() {
        assert_eq!(RequestId::from(0).as_json(), "0");
        assert_eq!(RequestId::from(u64::MAX).as_u64(), Some(u64::MAX));
        assert_eq!(id("3.0").as_u64(), Some(3));
        assert_eq!(RequestId::from("a\"b").as_json(), "\"a\\\"b\"");
        assert_eq!(RequestId::from("a\"b").as_text().as_deref(), Some("a\"b"));
    }
}
