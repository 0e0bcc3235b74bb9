//! Keywords without effect on which values are valid.

use mcp_proto::wire::RawJson;
#[cfg(any(feature = "schemas", feature = "json-schema"))]
use serde_json::Value;

/// The values that an annotation may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnnotationKind {
    Any,
    Flag,
    List,
    Text,
}

const ANNOTATIONS: [(&str, AnnotationKind); 10] = [
    ("$comment", AnnotationKind::Text),
    ("$schema", AnnotationKind::Text),
    ("default", AnnotationKind::Any),
    ("deprecated", AnnotationKind::Flag),
    ("description", AnnotationKind::Text),
    ("examples", AnnotationKind::List),
    ("readOnly", AnnotationKind::Flag),
    ("title", AnnotationKind::Text),
    ("writeOnly", AnnotationKind::Flag),
    ("x-mcp-header", AnnotationKind::Any),
];

/// Returns the values that a keyword may have, if it is an annotation.
pub(super) fn annotation(keyword: &str) -> Option<AnnotationKind> {
    ANNOTATIONS.iter().find(|(known, _)| *known == keyword).map(|(_, kind)| *kind)
}

impl AnnotationKind {
    pub(super) fn has_text(self, value: &RawJson<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::Flag => matches!(value.get(), "true" | "false"),
            Self::List => value.get().starts_with('['),
            Self::Text => value.get().starts_with('"'),
        }
    }

    #[cfg(any(feature = "schemas", feature = "json-schema"))]
    pub(super) fn has_value(self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Flag => value.is_boolean(),
            Self::List => value.is_array(),
            Self::Text => value.is_string(),
        }
    }
}
