//! Skills: folders with instructions for a model.

use mcp_service::{ServiceBuilder, Skill};

use super::content::PNG;

const GREETING: &str = "\
---
name: greeting
description: Greets a person by name. Use it whenever a person is to be greeted.
license: MIT
metadata:
  version: \"1.0\"
---
Choose one of the texts in `templates/`, and put the name where `{name}` stands.
A formal one is sealed with `seal.png`.
";

const REFUNDS: &str = "\
---
name: refunds
description: Gives money back as the policy says
---
Answer as `examples/email.md` does. What to do in other cases is a skill of its own: `exceptions/SKILL.md`.
";

const EXCEPTIONS: &str = "\
---
name: exceptions
description: Says what to do where the policy of refunds says nothing
---
Ask a colleague.
";

pub(super) fn register(builder: ServiceBuilder) -> ServiceBuilder {
    builder
        .skill(
            Skill::new("greeting", GREETING)
                .file("templates/formal.txt", "Dear {name},\n")
                .file("templates/casual.txt", "Hi {name}!\n")
                .file("seal.png", PNG),
        )
        .skill(
            Skill::new("acme/billing/refunds", REFUNDS)
                .file("examples/email.md", "Dear customer,\n\nyou have your money back.\n")
                .file("exceptions/SKILL.md", EXCEPTIONS)
                .nested("exceptions"),
        )
}
