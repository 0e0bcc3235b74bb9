//! Deserializes named texts into a type of the application, and cuts texts of a peer that are quoted in errors.

use std::fmt::{self, Write};

use mcp_proto::schema::Map;
use serde_core::{
    de::{
        DeserializeOwned, Deserializer, IntoDeserializer, Unexpected, Visitor,
        value::{Error, MapDeserializer},
    },
    forward_to_deserialize_any,
};

/// Deserializes named texts into a `T`: a struct with a field for each, or a map.
pub(crate) fn read<T: DeserializeOwned>(texts: &Map<String>) -> Result<T, Error> {
    T::deserialize(MapDeserializer::new(texts.iter().map(|(name, text)| (name, Text(text)))))
}

/// The most bytes of a peer's text that an error quotes.
const QUOTED: usize = 400;

/// Returns the beginning of a text that may quote a peer, for an error. It is cut while it is formatted, so the rest
/// takes no memory.
pub(crate) fn excerpt(text: &(impl fmt::Display + ?Sized)) -> String {
    struct Cut(String);

    impl Write for Cut {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let room = QUOTED - self.0.len();
            if text.len() <= room {
                self.0.push_str(text);
                return Ok(());
            }
            let end = (0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            self.0.push_str(&text[..end]);
            Err(fmt::Error)
        }
    }

    let mut cut = Cut(String::new());
    // It only fails where it is cut.
    if write!(cut, "{text}").is_err() {
        cut.0.push('…');
    }
    cut.0
}

/// A text that is deserialized as the type that is requested.
struct Text<'a>(&'a str);

impl<'de> IntoDeserializer<'de, Error> for Text<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident $what:literal,)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.0.parse() {
                Ok(value) => visitor.$visit(value),
                Err(_) => Err(serde_core::de::Error::invalid_value(Unexpected::Str(self.0), &$what)),
            }
        })*
    };
}

impl<'de> Deserializer<'de> for Text<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.0)
    }

    /// Deserializes a present text as `Some`, also an empty one.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    parsed! {
        deserialize_bool visit_bool "true or false",
        deserialize_i8 visit_i8 "an integer", deserialize_i16 visit_i16 "an integer", deserialize_i32 visit_i32 "an integer",
        deserialize_i64 visit_i64 "an integer", deserialize_i128 visit_i128 "an integer",
        deserialize_u8 visit_u8 "an integer", deserialize_u16 visit_u16 "an integer", deserialize_u32 visit_u32 "an integer",
        deserialize_u64 visit_u64 "an integer", deserialize_u128 visit_u128 "an integer",
        deserialize_f32 visit_f32 "a number", deserialize_f64 visit_f64 "a number",
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Color {
        Red,
        Green,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Id(u8);

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Arguments {
        name: String,
        id: Id,
        color: Color,
        share: f64,
        nick: Option<String>,
        verbose: Option<bool>,
    }

    #[test]
    fn excerpts_end_on_a_character_boundary() {
        assert_eq!(excerpt("short"), "short");
        assert_eq!(excerpt(&"x".repeat(QUOTED)), "x".repeat(QUOTED));
        let long = format!("{}{}", "x".repeat(QUOTED - 1), "é".repeat(1 << 20));
        let used = allocation_counter::measure(|| assert_eq!(excerpt(&long), format!("{}…", "x".repeat(QUOTED - 1))));
        assert!(used.bytes_total < 4096, "{used:?}");
        assert_eq!(excerpt(&format_args!("{}{long}", "y".repeat(QUOTED))).len(), QUOTED + '…'.len_utf8());
    }

    #[test]
    fn text_arguments_deserialize_to_types() {
        let texts =
            Map::from([("name", "a b"), ("id", "7"), ("color", "green"), ("share", "0.5"), ("verbose", "true")]);
        let texts: Map<String> = texts.into_iter().map(|(name, text)| (name, text.to_owned())).collect();
        let arguments: Arguments = read(&texts).expect("all there");
        let expected = Arguments {
            name: "a b".into(),
            id: Id(7),
            color: Color::Green,
            share: 0.5,
            nick: None,
            verbose: Some(true),
        };
        assert_eq!(arguments, expected);
        assert_eq!(read::<BTreeMap<String, String>>(&texts).expect("any map").len(), 5);

        let mut wrong = texts.clone();
        wrong.insert("id", "300".to_owned());
        assert!(read::<Arguments>(&wrong).expect_err("too large").to_string().contains("300"));
        wrong.remove("id");
        assert!(read::<Arguments>(&wrong).expect_err("missing").to_string().contains("id"));
        assert_eq!(Color::Red, Color::Red);
    }
}
