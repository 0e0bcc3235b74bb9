//! Heads of requests and responses in a record.

/// The fields of a head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    pairs: Vec<(String, String)>,
    /// It is asked for at each piece of a body, and a head can have thousands of fields.
    size: usize,
}

impl Fields {
    fn new(pairs: Vec<(String, String)>) -> Self {
        // Each pair has two texts beside their bytes.
        let size = pairs.iter().map(|(name, value)| name.len() + value.len() + 2 * size_of::<String>()).sum();
        Self { pairs, size }
    }

    /// Returns the value of the first field of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns all values of a name, as one list.
    pub(crate) fn list(&self, name: &str) -> Option<String> {
        let all: Vec<_> = self
            .pairs
            .iter()
            .filter(|(it, _)| it.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Returns how many bytes the names and the values have.
    pub(super) const fn size(&self) -> usize {
        self.size
    }

    /// Returns whether the body is compressed, by its own coding or by one of the transfer.
    pub(super) fn is_encoded(&self) -> bool {
        let has = |name: &str, plain: &[&str]| {
            let list = self.list(name).unwrap_or_default();
            list.split(',').any(|coding| !plain.iter().any(|plain| coding.trim().eq_ignore_ascii_case(plain)))
        };
        has("content-encoding", &["", "identity"]) || has("transfer-encoding", &["", "identity", "chunked"])
    }

    /// Returns the media type, in lower case and without parameters.
    pub(crate) fn media_type(&self) -> String {
        let value = self.get("content-type").unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }
}

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestHead {
    pub(crate) method: String,
    /// The path and the query.
    pub(crate) target: String,
    pub(crate) fields: Fields,
}

impl RequestHead {
    /// Returns the method and the path, without the query.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.method, self.path())
    }

    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    pub(crate) fields: Fields,
}

/// Splits a head into its first line and its fields.
pub(super) fn parse(head: &[u8]) -> (String, Fields) {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    let first = lines.next().unwrap_or_default().to_owned();
    let pair = |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    (first, Fields::new(lines.filter_map(pair).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_have_the_size_of_their_fields() {
        let (first, fields) = parse(b"GET / HTTP/1.1\r\nA: bc\r\nno field\r\na:d\n\r\n");
        assert_eq!((&*first, fields.list("a").as_deref()), ("GET / HTTP/1.1", Some("bc, d")));
        assert_eq!(fields.size(), "AbcAd".len() + 4 * size_of::<String>());
        assert_eq!(Fields::default().size(), 0);
    }
}
