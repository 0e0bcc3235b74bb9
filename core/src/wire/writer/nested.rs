//! Arrays and objects while they are written.

use alloc::vec::Vec;

use serde_core::{
    Serialize,
    ser::{
        SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple, SerializeTupleStruct,
        SerializeTupleVariant,
    },
};
use serde_json::Error;

use super::{escape, text::Text, write};

/// An array.
pub(super) struct Items<'a> {
    out: &'a mut Vec<u8>,
    /// The byte before the next element.
    before: u8,
    end: &'static str,
}

impl<'a> Items<'a> {
    #[inline]
    pub(super) fn new(out: &'a mut Vec<u8>, end: &'static str) -> Self {
        Self { out, before: b'[', end }
    }

    #[inline]
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.out.push(self.before);
        self.before = b',';
        write(self.out, value)
    }

    #[inline]
    fn close(self) -> Result<(), Error> {
        if self.before == b'[' {
            self.out.push(b'[');
        }
        self.out.extend_from_slice(self.end.as_bytes());
        Ok(())
    }
}

macro_rules! items {
    ($($Trait:ident: $method:ident),*) => {
        $(impl $Trait for Items<'_> {
            type Ok = ();
            type Error = Error;

            #[inline]
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.item(value)
            }

            #[inline]
            fn end(self) -> Result<(), Error> {
                self.close()
            }
        })*
    };
}

items! {
    SerializeSeq: serialize_element, SerializeTuple: serialize_element, SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field
}

/// An object.
pub(super) struct Members<'a> {
    out: &'a mut Vec<u8>,
    /// The byte before the next name.
    before: u8,
    end: &'static str,
}

impl<'a> Members<'a> {
    #[inline]
    pub(super) fn new(out: &'a mut Vec<u8>, end: &'static str) -> Self {
        Self { out, before: b'{', end }
    }

    #[inline]
    fn comma(&mut self) {
        self.out.push(self.before);
        self.before = b',';
    }

    #[inline]
    fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Error> {
        self.comma();
        escape::string(self.out, name);
        self.out.push(b':');
        write(self.out, value)
    }

    #[inline]
    fn close(self) -> Result<(), Error> {
        if self.before == b'{' {
            self.out.push(b'{');
        }
        self.out.extend_from_slice(self.end.as_bytes());
        Ok(())
    }
}

impl SerializeMap for Members<'_> {
    type Ok = ();
    type Error = Error;

    #[inline]
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.comma();
        key.serialize(Text::name(self.out))
    }

    #[inline]
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.out.push(b':');
        write(self.out, value)
    }

    #[inline]
    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

impl SerializeStructVariant for Members<'_> {
    type Ok = ();
    type Error = Error;

    #[inline]
    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.member(name, value)
    }

    #[inline]
    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

/// A struct, usually written as an object.
pub(super) enum Fields<'a> {
    Object(Members<'a>),
    /// Raw JSON text. serde_json passes it as the only field of a struct with a special name: raw values, and numbers
    /// with arbitrary precision.
    Json(&'a mut Vec<u8>),
}

impl<'a> Fields<'a> {
    #[inline]
    pub(super) fn new(out: &'a mut Vec<u8>, name: &str) -> Self {
        if name.starts_with("$serde_json::private::") { Self::Json(out) } else { Self::Object(Members::new(out, "}")) }
    }
}

impl SerializeStruct for Fields<'_> {
    type Ok = ();
    type Error = Error;

    #[inline]
    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        match self {
            Self::Object(members) => members.member(name, value),
            Self::Json(out) => value.serialize(Text::json(out)),
        }
    }

    #[inline]
    fn end(self) -> Result<(), Error> {
        match self {
            Self::Object(members) => members.close(),
            Self::Json(_) => Ok(()),
        }
    }
}
