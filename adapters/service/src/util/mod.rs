//! Building blocks that do not depend on a connection: locks, wait queues, clocks, randomness, lists, URIs and texts.

pub(crate) mod elicitation_form;
pub(crate) mod future_set;
pub(crate) mod json_text;
pub(crate) mod lock;
pub(crate) mod media_type;
pub(crate) mod paged_list;
pub(crate) mod prefix;
pub(crate) mod random;
pub(crate) mod text_arguments;
pub(crate) mod time;
pub(crate) mod uri;
pub(crate) mod uri_template;
pub(crate) mod wait_queue;
pub(crate) mod wall_clock;
