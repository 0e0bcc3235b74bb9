//! A number as the contents of a resource.

//~ MESSAGE `{integer}` cannot be the contents of a resource
//~ NOTE contents are a text, bytes, `ResourceContents`

use mcp_service::Resource;

fn main() {
    Resource::new("count://now", "count", || 5);
}
