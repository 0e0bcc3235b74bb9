//! Objects of several kinds.

use alloc::borrow::Cow;

use serde_json::Error;

use super::{ExpectedType, inside};
use crate::wire::reader::Reader;

/// Objects that are distinguished by one member.
pub(crate) trait Union: Sized {
    /// The name of the type, for errors.
    const NAME: &'static str;
    /// The name of that member.
    const TAG: &'static str;

    /// Reads the next object as `kind`, the value of its tag, or `None` without one.
    fn variant(kind: Option<&str>, reader: &mut Reader<'_>) -> Result<Self, Error>;
}

/// Reads one of several kinds of objects. Members before the tag are skipped until the kind is known, and read after
/// that.
pub(crate) fn union<U: Union>(reader: &mut Reader<'_>) -> Result<U, Error> {
    let kind = reader.look_ahead(|reader| kind::<U>(reader))?;
    U::variant(kind.as_deref(), reader)
}

/// Returns the value of the tag, if there is one.
fn kind<'de, U: Union>(reader: &mut Reader<'de>) -> Result<Option<Cow<'de, str>>, Error> {
    let mut members = reader.members(&ExpectedType(U::NAME, "an object"))?;
    while let Some(name) = members.next()? {
        let value = members.value();
        if name != U::TAG {
            value.raw()?;
        } else if value.peek() == Some(b'n') {
            return Ok(None);
        } else {
            return value.string().map(Some).map_err(|error| inside(U::NAME, U::TAG, &error));
        }
    }
    Ok(None)
}
