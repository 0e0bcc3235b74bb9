//! A serializer for positions where only a text is allowed: names of members, and JSON that is already encoded.

use alloc::vec::Vec;
use core::fmt::{Display, Write};

use serde_core::{
    Serialize, Serializer,
    ser::{Error as _, Impossible},
};
use serde_json::Error;

use super::{AppendFormatter, Escaped, Writer, escape};
use crate::wire::one_line;

/// The name of a member in quotes, or raw JSON text on one line.
pub(super) struct Text<'a> {
    out: &'a mut Vec<u8>,
    quoted: bool,
}

impl<'a> Text<'a> {
    #[inline]
    pub(super) const fn name(out: &'a mut Vec<u8>) -> Self {
        Self { out, quoted: true }
    }

    #[inline]
    pub(super) const fn json(out: &'a mut Vec<u8>) -> Self {
        Self { out, quoted: false }
    }

    /// Writes text that needs no escapes.
    fn plain(self, write: impl FnOnce(Writer<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let Self { out, quoted } = self;
        out.extend_from_slice(if quoted { b"\"" } else { b"" });
        write(Writer(out))?;
        out.extend_from_slice(if quoted { b"\"" } else { b"" });
        Ok(())
    }

    fn float(self, is_finite: bool, write: impl FnOnce(Writer<'_>) -> Result<(), Error>) -> Result<(), Error> {
        if is_finite { self.plain(write) } else { Err(Error::custom("float key must be finite (got NaN or +/-inf)")) }
    }
}

#[cold]
fn no_text<T>() -> Result<T, Error> {
    Err(Error::custom("key must be a string"))
}

macro_rules! scalars {
    ($($method:ident: $Type:ty),*) => {
        $(fn $method(self, value: $Type) -> Result<(), Error> {
            self.plain(|writer| writer.$method(value))
        })*
    };
}

macro_rules! refused {
    ($($method:ident($($arg:ty),*) -> $Ok:ty;)*) => {
        $(fn $method(self, $(_: $arg),*) -> Result<$Ok, Error> {
            no_text()
        })*
    };
}

impl Serializer for Text<'_> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Impossible<(), Error>;
    type SerializeTuple = Impossible<(), Error>;
    type SerializeTupleStruct = Impossible<(), Error>;
    type SerializeTupleVariant = Impossible<(), Error>;
    type SerializeMap = Impossible<(), Error>;
    type SerializeStruct = Impossible<(), Error>;
    type SerializeStructVariant = Impossible<(), Error>;

    #[inline]
    fn serialize_str(self, value: &str) -> Result<(), Error> {
        if self.quoted {
            escape::string(self.out, value);
        } else {
            one_line::raw(self.out, value);
        }
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_unit_variant(self, _name: &'static str, _index: u32, variant: &'static str) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        if !self.quoted {
            return write!(AppendFormatter(self.out), "{value}").map_err(Error::custom);
        }
        self.out.push(b'"');
        write!(Escaped(self.out), "{value}").map_err(Error::custom)?;
        self.out.push(b'"');
        Ok(())
    }

    scalars! {
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_u128: u128
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        self.float(value.is_finite(), |writer| writer.serialize_f32(value))
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        self.float(value.is_finite(), |writer| writer.serialize_f64(value))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _value: &T,
    ) -> Result<(), Error> {
        no_text()
    }

    refused! {
        serialize_bytes(&[u8]) -> ();
        serialize_none() -> ();
        serialize_unit() -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_seq(Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(usize) -> Self::SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
        serialize_map(Option<usize>) -> Self::SerializeMap;
        serialize_struct(&'static str, usize) -> Self::SerializeStruct;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
    }
}
