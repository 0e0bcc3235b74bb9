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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn number(value: &Value) -> &Number {
        value.as_number().expect("a number")
    }

    #[test]
    fn whole_numbers_in_range_are_integers() {
        for (value, expected) in [
            (json!(0), Some(0)),
            (json!(-1), Some(-1)),
            (json!(i64::MIN), Some(i128::from(i64::MIN))),
            (json!(u64::MAX), Some(i128::from(u64::MAX))),
            (json!(2.0), Some(2)),
            (json!(-2.0), Some(-2)),
            (json!(2.5), None),
            (json!(1e37), Some(1e37 as i128)),
            (json!(1e38), None),
            (json!(-1e38), None),
        ] {
            assert_eq!(integer(number(&value)), expected, "{value}");
        }
    }

    #[test]
    fn numbers_have_an_exact_order() {
        // Each is less than the next one.
        let ordered = [
            json!(-1e300),
            json!(-1e38),
            json!(i64::MIN),
            json!(-2),
            json!(-1.5),
            json!(-1),
            json!(0),
            json!(0.5),
            json!(1),
            json!(9_007_199_254_740_992_u64),
            json!(9_007_199_254_740_993_u64),
            json!(u64::MAX),
            json!(1e38),
            json!(1e300),
        ];
        for (at, one) in ordered.iter().enumerate() {
            for (place, other) in ordered.iter().enumerate() {
                assert_eq!(compare(number(one), number(other)), Some(at.cmp(&place)), "{one} {other}");
            }
        }
        assert_eq!(compare(number(&json!(1)), number(&json!(1.0))), Some(Ordering::Equal));
        assert_eq!(compare(number(&json!(0.5)), number(&json!(0.5))), Some(Ordering::Equal));
    }

    #[test]
    fn multiples_and_equal_values() {
        for (value, divisor, expected) in [
            (json!(6), 3, true),
            (json!(7), 3, false),
            (json!(-6), 3, true),
            (json!(0), 3, true),
            (json!(6.0), 3, true),
            (json!(4.5), 3, false),
            (json!(u64::MAX), 5, true),
            (json!(u64::MAX), 2, false),
        ] {
            assert_eq!(is_multiple(number(&value), divisor), expected, "{value} {divisor}");
        }
        for (one, other, expected) in [
            (json!([1, 2]), json!([1.0, 2]), true),
            (json!([1, 2]), json!([1]), false),
            (json!([1]), json!([1, 2]), false),
            (json!({"a": 1}), json!({"a": 1.0}), true),
            (json!({"a": 1}), json!({"b": 1}), false),
            (json!({"a": 1}), json!({"a": 1, "b": 2}), false),
            (json!("1"), json!(1), false),
            (json!(null), json!(null), true),
            (json!(true), json!(false), false),
        ] {
            assert_eq!((is_equal(&one, &other), is_equal(&other, &one)), (expected, expected), "{one} {other}");
            assert_eq!(has_equal_values(&[json!("x"), one, other]), expected);
        }
        assert!(!has_equal_values(&[]));
    }
}
