//! Draws a record: as a page with everything in it, or as one image.

mod model;
mod page;
mod svg;

use std::{ffi::OsStr, fs::File, io, path::Path, process::ExitCode};

use model::Trace;

use crate::{error::Failed, show};

/// Writes the page or the image of a record: the end of the name decides.
pub(crate) fn trace(record: &Path, output: &Path, quiet: bool) -> Result<ExitCode, Failed> {
    let is_svg = match output.extension().and_then(OsStr::to_str) {
        Some("svg") => true,
        Some("html" | "htm") => false,
        _ => return Err(Failed::usage(format!("{} ends neither in .html nor in .svg", output.display()))),
    };
    let trace = Trace::read(record)?;
    let wrong = |error: io::Error| Failed::usage(format!("{} cannot be written: {error}", output.display()));
    let mut file = io::BufWriter::new(File::create(output).map_err(wrong)?);
    let written = if is_svg { svg::write(&trace, &mut file) } else { page::write(&trace, &mut file) };
    written.and_then(|()| io::Write::flush(&mut file)).map_err(wrong)?;
    if trace.left_out > 0 && !quiet {
        let (shown, left_out) = (trace.messages.len(), trace.left_out);
        show::note(&format!("the first {shown} messages are shown, and {left_out} are left out"));
    }
    Ok(ExitCode::SUCCESS)
}
