//! Writes the seeds into `corpus/`, in addition to its files.
//!
//! ```text
//! MCP_SPEC_DIR=… cargo run -p mcp-fuzz --bin seeds
//! ```

use std::{env, fs, io, path::Path};

fn main() -> io::Result<()> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let spec = env::var_os("MCP_SPEC_DIR").map_or_else(|| home.join("../../shared/spec"), Into::into);
    for ((target, name), input) in mcp_fuzz::seeds::seeds(&spec)? {
        let folder = home.join("corpus").join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), input)?;
    }
    Ok(())
}
