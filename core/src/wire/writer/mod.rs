//! Encodes values of serde as compact JSON, into a vector, where writing cannot fail.
//!
//! The text is that of serde_json, byte for byte.

mod nested;
#[cfg(test)]
mod tests;
mod text;

use alloc::vec::Vec;
use core::fmt::{self, Display, Write};

use serde_core::{Serialize, Serializer, ser::Error as _};
use serde_json::{Error, Number};

use super::escape;
use nested::{Fields, Items, Members};

/// Appends the JSON text of `value`.
///
/// # Errors
/// Returns an error if JSON cannot represent `value`. The text before the error stays in `out`.
pub(super) fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), Error> {
    value.serialize(Writer(out))
}

/// A serializer that writes one value.
struct Writer<'a>(&'a mut Vec<u8>);

impl Writer<'_> {
    fn raw(self, text: &str) -> Result<(), Error> {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

macro_rules! integers {
    ($($method:ident: $Type:ty),*) => {
        $(#[inline]
        fn $method(self, value: $Type) -> Result<(), Error> {
            self.raw(itoa::Buffer::new().format(value))
        })*
    };
}

impl<'a> Serializer for Writer<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Items<'a>;
    type SerializeTuple = Items<'a>;
    type SerializeTupleStruct = Items<'a>;
    type SerializeTupleVariant = Items<'a>;
    type SerializeMap = Members<'a>;
    type SerializeStruct = Fields<'a>;
    type SerializeStructVariant = Members<'a>;

    integers! {
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128
    }

    #[inline]
    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.raw(if value { "true" } else { "false" })
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        // Its shortest text is not that of the same number as f64.
        self.raw(&serde_json::to_string(&value)?)
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        match Number::from_f64(value) {
            Some(number) => write!(AppendFormatter(self.0), "{number}").map_err(Error::custom),
            None => self.serialize_unit(),
        }
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Result<(), Error> {
        escape::string(self.0, value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.collect_seq(value)
    }

    #[inline]
    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    #[inline]
    fn serialize_unit(self) -> Result<(), Error> {
        self.raw("null")
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_unit_variant(self, _name: &'static str, _index: u32, variant: &'static str) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        open_variant(self.0, variant);
        write(self.0, value)?;
        self.0.push(b'}');
        Ok(())
    }

    #[inline]
    fn serialize_seq(self, _len: Option<usize>) -> Result<Items<'a>, Error> {
        Ok(Items::new(self.0, "]"))
    }

    #[inline]
    fn serialize_tuple(self, _len: usize) -> Result<Items<'a>, Error> {
        Ok(Items::new(self.0, "]"))
    }

    fn serialize_tuple_struct(self, _name: &'static str, _len: usize) -> Result<Items<'a>, Error> {
        Ok(Items::new(self.0, "]"))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Items<'a>, Error> {
        open_variant(self.0, variant);
        Ok(Items::new(self.0, "]}"))
    }

    #[inline]
    fn serialize_map(self, _len: Option<usize>) -> Result<Members<'a>, Error> {
        Ok(Members::new(self.0, "}"))
    }

    #[inline]
    fn serialize_struct(self, name: &'static str, _len: usize) -> Result<Fields<'a>, Error> {
        Ok(Fields::new(self.0, name))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Members<'a>, Error> {
        open_variant(self.0, variant);
        Ok(Members::new(self.0, "}}"))
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        self.0.push(b'"');
        write!(Escaped(self.0), "{value}").map_err(Error::custom)?;
        self.0.push(b'"');
        Ok(())
    }
}

/// Opens the object of a variant with data.
fn open_variant(out: &mut Vec<u8>, variant: &str) {
    out.push(b'{');
    escape::string(out, variant);
    out.push(b':');
}

/// A formatter that appends text unchanged.
struct AppendFormatter<'a>(&'a mut Vec<u8>);

impl Write for AppendFormatter<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.0.extend_from_slice(piece.as_bytes());
        Ok(())
    }
}

/// A formatter that appends text as the contents of a JSON string.
struct Escaped<'a>(&'a mut Vec<u8>);

impl Write for Escaped<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        escape::contents(self.0, piece);
        Ok(())
    }
}
