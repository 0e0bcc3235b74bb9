//! Writes the modules of JavaScript for a WebAssembly module, for pages and workers.
//!
//! ```sh
//! bindgen MODULE.wasm FOLDER
//! ```

use std::{env, error::Error};

use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<(), Box<dyn Error>> {
    let (Some(module), Some(folder)) = (env::args().nth(1), env::args().nth(2)) else {
        return Err("arguments: MODULE.wasm FOLDER".into());
    };
    Bindgen::new().input_path(module).web(true)?.typescript(false).omit_default_module_path(false).generate(folder)?;
    Ok(())
}
