//! Bodies: where they end, and which of their bytes are content.

/// The longest line with the size of a chunk.
const MAX_SIZE_LINE: usize = 4 << 10;

/// The longest fields after the last chunk.
const MAX_TRAILER: usize = 16 << 10;

/// How the end of a body is known.
#[derive(Debug)]
pub(super) enum Framing {
    /// This many bytes are left.
    Length(u64),
    Chunked(Chunk),
    UntilEnd,
}

/// A place in a chunked body.
#[derive(Debug)]
pub(super) enum Chunk {
    /// In the line with the size: the size so far, what follows it, and the bytes of the line.
    Size {
        size: u64,
        has_digit: bool,
        after: After,
        len: usize,
    },
    /// In the content, of which this much is left.
    Data(u64),
    /// In the line break after the content. Whether it has its carriage return.
    Break(bool),
    /// In the fields after the last chunk: how many bytes their line has, and all of them.
    Trailer {
        line: usize,
        len: usize,
        has_returned: bool,
    },
    Over,
    /// Before a byte that is wrong, for this reason.
    Wrong(&'static str),
}

/// The bytes after the digits of a size in its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Nothing so far.
    Digits,
    Blank,
    Extension,
    /// The carriage return, which only a line feed may follow.
    Return,
}

/// A part of a body that was read.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) data: Vec<u8>,
    pub(super) trailer: Vec<u8>,
}

impl Chunk {
    const fn size() -> Self {
        Self::Size { size: 0, has_digit: false, after: After::Digits, len: 0 }
    }
}

impl Framing {
    pub(super) const fn chunked() -> Self {
        Self::Chunked(Chunk::size())
    }

    /// Returns whether the body has ended.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunk::Over))
    }

    /// Returns whether a part of the fields after the body may have been read, and not all of them.
    pub(super) const fn is_in_trailer(&self) -> bool {
        matches!(self, Self::Chunked(Chunk::Trailer { len: 1.., .. } | Chunk::Wrong(_)))
    }

    /// Returns whether the next byte of a chunked body is the first one of a chunk.
    pub(super) const fn is_between(&self) -> bool {
        matches!(self, Self::Chunked(Chunk::Size { len: 0, .. }))
    }

    /// Takes the bytes of the body from the beginning of `bytes`. Returns how many there are. Those before an error are
    /// taken: it is returned by the next call.
    pub(super) fn take(&mut self, bytes: &[u8], content: &mut Content) -> Result<usize, &'static str> {
        match self {
            Self::UntilEnd => {
                content.data.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            Self::Length(left) => {
                let len = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                content.data.extend_from_slice(&bytes[..len]);
                *left -= len as u64;
                Ok(len)
            }
            Self::Chunked(chunk) => {
                let mut at = 0;
                if let Chunk::Wrong(why) = chunk {
                    return Err(why);
                }
                while at < bytes.len() && !matches!(chunk, Chunk::Over) {
                    if let Chunk::Data(left) = chunk {
                        let len = (bytes.len() - at).min(usize::try_from(*left).unwrap_or(usize::MAX));
                        content.data.extend_from_slice(&bytes[at..at + len]);
                        *left -= len as u64;
                        at += len;
                        if *left == 0 {
                            *chunk = Chunk::Break(false);
                        }
                        continue;
                    }
                    if let Err(why) = chunk.take(bytes[at], content) {
                        *chunk = Chunk::Wrong(why);
                        return if at == 0 { Err(why) } else { Ok(at) };
                    }
                    at += 1;
                }
                Ok(at)
            }
        }
    }
}

impl Chunk {
    /// Takes a byte that is no content.
    fn take(&mut self, byte: u8, content: &mut Content) -> Result<(), &'static str> {
        const WRONG: &str = "the size of a chunk is no number";
        match self {
            Self::Size { size, has_digit, after, len } => {
                *len += 1;
                if *len > MAX_SIZE_LINE {
                    return Err("the line with the size of a chunk is too long");
                }
                match (*after, byte, (byte as char).to_digit(16)) {
                    (_, b'\n', _) if *has_digit => {
                        *self = match *size {
                            0 => Self::Trailer { line: 0, len: 0, has_returned: false },
                            size => Self::Data(size),
                        };
                    }
                    (After::Digits, _, Some(digit)) => {
                        *size = size.checked_mul(16).and_then(|size| size.checked_add(digit.into())).ok_or(WRONG)?;
                        *has_digit = true;
                    }
                    (After::Return, ..) => return Err(WRONG),
                    (_, b'\r', _) if *has_digit => *after = After::Return,
                    (After::Extension, ..) => {}
                    (_, b';', _) if *has_digit => *after = After::Extension,
                    (_, b' ' | b'\t', _) if *has_digit => *after = After::Blank,
                    _ => return Err(WRONG),
                }
            }
            Self::Break(has_returned) => match byte {
                b'\r' if !*has_returned => *has_returned = true,
                b'\n' => *self = Self::size(),
                _ => return Err("a chunk is longer than its size"),
            },
            Self::Trailer { line, len, has_returned } => {
                *len += 1;
                if *len > MAX_TRAILER {
                    return Err("the fields after the body are too long");
                }
                if *has_returned && byte != b'\n' {
                    return Err("a field after the body has a carriage return within its line");
                }
                *has_returned = byte == b'\r';
                let is_empty = *line == 0;
                match byte {
                    b'\n' if is_empty => {
                        *self = Self::Over;
                        return Ok(());
                    }
                    b'\n' => *line = 0,
                    b'\r' if is_empty => return Ok(()),
                    b'\r' => {}
                    _ => *line += 1,
                }
                content.trailer.push(byte);
            }
            Self::Data(_) | Self::Over | Self::Wrong(_) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a body that arrives in pieces. Returns the content, the trailer, and the length.
    fn read(mut framing: Framing, body: &[u8], chunk: usize) -> Result<(Vec<u8>, Vec<u8>, usize), &'static str> {
        let (mut content, mut len) = (Content::default(), 0);
        for bytes in body.chunks(chunk) {
            let taken = framing.take(bytes, &mut content)?;
            len += taken;
            if taken < bytes.len() {
                // After the end nothing is taken, and after an error it is returned.
                let rest = framing.take(&bytes[taken..], &mut content)?;
                assert!(rest == 0 && framing.is_over());
                break;
            }
        }
        Ok((content.data, content.trailer, len))
    }

    #[test]
    fn bodies_end_wherever_they_are_cut() {
        let body = b"3;a=\"b\"\r\nabc\r\n0A \r\n0123456789\r\n0\r\nX: y\r\nZ:\r\n\r\nnext";
        let expected = (b"abc0123456789".to_vec(), b"X: y\r\nZ:\r\n".to_vec(), body.len() - 4);
        for chunk in 1..=body.len() {
            assert_eq!(read(Framing::chunked(), body, chunk), Ok(expected.clone()), "{chunk}");
            assert_eq!(read(Framing::Length(5), b"1234567", chunk), Ok((b"12345".to_vec(), Vec::new(), 5)));
            assert_eq!(read(Framing::UntilEnd, b"1234567", chunk), Ok((b"1234567".to_vec(), Vec::new(), 7)));
            let bare = b"2\nab\n0\n\nx";
            assert_eq!(read(Framing::chunked(), bare, chunk), Ok((b"ab".to_vec(), Vec::new(), bare.len() - 1)));
        }
    }

    #[test]
    fn bytes_before_an_error_are_taken() {
        let (mut framing, mut content) = (Framing::chunked(), Content::default());
        assert_eq!(framing.take(b"3\r\nabc\r\nx", &mut content), Ok(8));
        assert_eq!((content.data.as_slice(), framing.is_over()), (&b"abc"[..], false));
        assert!(framing.take(b"x", &mut content).is_err());
    }

    #[test]
    fn wrong_chunks_are_refused() {
        let long = format!("1;{}", "x".repeat(MAX_SIZE_LINE));
        let trailer = format!("0\r\n{}", "x".repeat(MAX_TRAILER + 1));
        let wrong = ["5\rjunk\n", "5 junk\r\n", "1;a\rb\n", "1\r\na\r\r\n", "0\r\nA: b\rc\n\n", "0\r\n\r\r\n"];
        for body in wrong {
            for chunk in [1, body.len()] {
                assert!(read(Framing::chunked(), body.as_bytes(), chunk).is_err(), "{body}");
            }
        }
        for body in ["x\r\n", "\r\n", "-1\r\n", "11111111111111111\r\n", "1\r\nab", &long, &trailer] {
            for chunk in [1, body.len()] {
                assert!(read(Framing::chunked(), body.as_bytes(), chunk).is_err(), "{body}");
            }
        }
    }
}
