//! The media types of files.

/// Returns the media type of a file by the extension of its name, in any case, or else by its contents.
pub(crate) fn media_type_of(name: &str, bytes: &[u8]) -> &'static str {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let known = TYPES.iter().find(|(known, _)| known.eq_ignore_ascii_case(extension));
    match known {
        Some((_, media_type)) => media_type,
        None if std::str::from_utf8(bytes).is_ok() => "text/plain",
        None => "application/octet-stream",
    }
}

/// Returns whether files of a media type are text.
pub(crate) fn is_text(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    let is_structured = |suffix| essence.ends_with(suffix);
    essence.starts_with("text/")
        || is_structured("+json")
        || is_structured("+xml")
        || matches!(essence, "application/json" | "application/xml" | "application/yaml" | "application/x-sh")
}

/// Extensions of files with the media types that are registered for them.
const TYPES: [(&str, &str); 46] = [
    ("md", "text/markdown"),
    ("markdown", "text/markdown"),
    ("json", "application/json"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("html", "text/html"),
    ("htm", "text/html"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("tsv", "text/tab-separated-values"),
    ("ics", "text/calendar"),
    ("js", "text/javascript"),
    ("mjs", "text/javascript"),
    ("py", "text/x-python"),
    ("sh", "application/x-sh"),
    ("xml", "application/xml"),
    ("txt", "text/plain"),
    ("log", "text/plain"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("bmp", "image/bmp"),
    ("ico", "image/vnd.microsoft.icon"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("wav", "audio/wav"),
    ("mp3", "audio/mpeg"),
    ("ogg", "audio/ogg"),
    ("oga", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("flac", "audio/flac"),
    ("m4a", "audio/mp4"),
    ("aac", "audio/aac"),
    ("mp4", "video/mp4"),
    ("webm", "video/webm"),
    ("pdf", "application/pdf"),
    ("zip", "application/zip"),
    ("gz", "application/gzip"),
    ("wasm", "application/wasm"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_before_contents() {
        let rows: [(&str, &[u8], &str); 8] = [
            ("a.PNG", b"text", "image/png"),
            ("a.tar.gz", b"", "application/gzip"),
            ("README", b"text", "text/plain"),
            ("README", b"\xff", "application/octet-stream"),
            ("png", b"text", "text/plain"),
            (".json", b"{}", "application/json"),
            ("a.b/c", b"\xff", "application/octet-stream"),
            ("", b"", "text/plain"),
        ];
        for (name, bytes, expected) in rows {
            assert_eq!(media_type_of(name, bytes), expected, "{name}");
        }
    }

    #[test]
    fn each_extension_has_one_type() {
        let names: std::collections::HashSet<_> = TYPES.iter().map(|(extension, _)| extension).collect();
        assert_eq!(names.len(), TYPES.len());
        assert!(TYPES.iter().all(|(_, media_type)| {
            mcp_proto::schema::ImageContent::from_bytes(b"", *media_type)
                .mime_type
                .split_once('/')
                .is_some_and(|(kind, name)| !kind.is_empty() && !name.is_empty())
        }));
    }

    #[test]
    fn texts_are_known_by_their_type() {
        for text in
            ["text/plain", "text/x; charset=utf-8", "image/svg+xml", "application/ld+json ; a=b", "application/json"]
        {
            assert!(is_text(text), "{text}");
        }
        for bytes in ["image/png", "application/octet-stream", "application/jsonx", "textual", ""] {
            assert!(!is_text(bytes), "{bytes}");
        }
    }
}
