//! Exact comparison of numbers, and equality of values in which 1 is 1.0.

use std::{cmp::Ordering, collections::HashSet, fmt::Write};

use serde_json::{Number, Value};

/// Floating-point numbers whose magnitude is below this fit into an `i128`.
const BEYOND: f64 = 1e38;

/// Returns a number as an integer, if it is one.
pub(super) fn integer(number: &Number) -> Option<i128> {
    let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    whole.or_else(|| {
        let float = number.as_f64()?;
        #[allow(clippy::cast_possible_truncation, reason = "it is a whole number in range")]
        (float.fract() == 0.0 && float.abs() < BEYOND).then_some(float as i128)
    })
}

/// Compares two numbers exactly; `None` if one of them cannot be represented.
pub(super) fn compare(one: &Number, other: &Number) -> Option<Ordering> {
    match (integer(one), integer(other)) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        (Some(one), None) => compare_with_float(one, other.as_f64()?),
        (None, Some(other)) => compare_with_float(other, one.as_f64()?).map(Ordering::reverse),
        (None, None) => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

/// Compares an integer with a number that is no integer, or is beyond all of them.
fn compare_with_float(integer: i128, float: f64) -> Option<Ordering> {
    if float.abs() >= BEYOND {
        return 0.0.partial_cmp(&float);
    }
    let below = float.floor();
    #[allow(clippy::cast_possible_truncation, reason = "it is in range")]
    let is_above = integer > below as i128;
    Some(if is_above { Ordering::Greater } else { Ordering::Less })
}

/// Returns whether a number is a multiple of a divisor, which is not 0.
pub(super) fn is_multiple(number: &Number, divisor: u64) -> bool {
    match integer(number) {
        Some(integer) => integer % i128::from(divisor) == 0,
        #[allow(clippy::cast_precision_loss, reason = "the number is not more precise")]
        None => number.as_f64().is_some_and(|float| float % divisor as f64 == 0.0),
    }
}

/// Returns whether two values are equal.
pub(super) fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare(one, other) == Some(Ordering::Equal),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has_equal = |(name, value)| other.get(name).is_some_and(|other| is_equal(value, other));
            one.len() == other.len() && one.iter().all(has_equal)
        }
        _ => one == other,
    }
}

/// Returns whether two values of a list are equal, in a time that grows with its size.
pub(super) fn has_equal_values(values: &[Value]) -> bool {
    let mut texts = HashSet::new();
    values.iter().any(|value| {
        let mut text = String::new();
        write_canonical(value, &mut text);
        !texts.insert(text)
    })
}

/// Writes a value so that only equal values have the same text.
fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (name, value) in members {
                // Writing to a text does not fail.
                let _ = write!(text, "{name:?}:");
                write_canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Number(number) => {
            let _ = match integer(number) {
                Some(integer) => write!(text, "{integer}"),
                None => write!(text, "{number}"),
            };
        }
        Value::String(string) => {
            let _ = write!(text, "{string:?}");
        }
        scalar => {
            let _ = write!(text, "{scalar}");
        }
    }
}
