//! The keys of a policy file, as tables: one source for the check of a file's shape and for the schema that editors read.

/// What a value may be.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// A whole number within bounds.
    Integer(i128, i128),
    /// `true` or `false`.
    Truth,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of values.
    List(&'static Self),
    /// Keys of the owner's choice, and a value for each.
    Map(&'static Self),
    /// Keys of ours.
    Object(&'static Object),
    /// The first of these that fits.
    Either(&'static [Self]),
    /// Not looked into.
    Any,
}

/// A mapping with keys of ours.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) fields: &'static [Field],
}

/// One key.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) doc: &'static str,
    pub(crate) need: Need,
}

/// Whether a key must, may, or may not yet be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    Required,
    Optional,
    /// A later version will enforce it. Until then it is refused: a rule that nobody enforces would be a lie.
    Later,
}

const fn field(name: &'static str, need: Need, kind: Kind, doc: &'static str) -> Field {
    Field {
        name,
        kind,
        doc,
        need,
    }
}

use Need::{Later, Optional, Required};

/// The whole file.
pub(crate) const POLICY: Object = Object {
    fields: &[
        field(
            "version",
            Required,
            Kind::Integer(1, 1),
            "The version of this schema: 1.",
        ),
        field(
            "filesystem_policy",
            Optional,
            Kind::Object(&FILESYSTEM),
            "Which paths the sandbox may read and write. Fixed when the sandbox is created.",
        ),
        field(
            "landlock",
            Optional,
            Kind::Object(&LANDLOCK),
            "What happens if a path of the filesystem policy cannot be granted. Fixed when the sandbox is created.",
        ),
        field(
            "process",
            Optional,
            Kind::Object(&PROCESS),
            "Whom processes run as. Fixed when the sandbox is created.",
        ),
        field(
            "network_policies",
            Optional,
            Kind::Map(&Kind::Object(&RULE)),
            "Which programs may reach which destinations. Without a rule that allows it, nothing is reached. Can be changed live.",
        ),
        field(
            "network_middlewares",
            Later,
            Kind::Map(&Kind::Any),
            "What allowed traffic passes through.",
        ),
    ],
};

const FILESYSTEM: Object = Object {
    fields: &[
        field(
            "include_workdir",
            Optional,
            Kind::Truth,
            "Whether the working directory may be written. False if this section is there, true if it is not.",
        ),
        field(
            "read_only",
            Optional,
            PATHS,
            "Absolute paths that may be read.",
        ),
        field(
            "read_write",
            Optional,
            PATHS,
            "Absolute paths that may be read and written; not `/`.",
        ),
    ],
};

const PATHS: Kind = Kind::List(&Kind::Text);

const LANDLOCK: Object = Object {
    fields: &[field(
        "compatibility",
        Optional,
        Kind::Word(&["best_effort", "hard_requirement"]),
        "`best_effort` leaves out paths that are missing; with `hard_requirement` the sandbox does not start.",
    )],
};

const IDENTITY: Kind = Kind::Either(&[Kind::Integer(1, 4_294_967_294), Kind::Text]);

const PROCESS: Object = Object {
    fields: &[
        field(
            "run_as_user",
            Optional,
            IDENTITY,
            "`sandbox`, or a number from 1 to 4294967294.",
        ),
        field(
            "run_as_group",
            Optional,
            IDENTITY,
            "`sandbox`, or a number from 1 to 4294967294.",
        ),
    ],
};

const RULE: Object = Object {
    fields: &[
        field(
            "name",
            Optional,
            Kind::Text,
            "What logs call this rule; its key if there is no name.",
        ),
        field(
            "endpoints",
            Optional,
            Kind::List(&Kind::Object(&ENDPOINT)),
            "The destinations.",
        ),
        field(
            "binaries",
            Optional,
            Kind::List(&Kind::Either(&[Kind::Object(&BINARY), Kind::Text])),
            "The programs that may reach them, themselves or through a program that they started. None: nothing may.",
        ),
    ],
};

const BINARY: Object = Object {
    fields: &[field(
        "path",
        Required,
        Kind::Text,
        "The absolute path of a program. `*` stands for any part of a name, `**` for any directories.",
    )],
};

const PORT: Kind = Kind::Integer(1, 65_535);

/// One destination.
pub(crate) const ENDPOINT: Object = Object {
    fields: &[
        field(
            "host",
            Optional,
            Kind::Text,
            "A name, an address, or `*.` before a name for one label (`**.` for one or more).",
        ),
        field("port", Optional, PORT, "The port; or several in `ports`."),
        field(
            "ports",
            Optional,
            Kind::List(&PORT),
            "The ports, if there are several.",
        ),
        field(
            "path",
            Optional,
            Kind::Text,
            "The endpoint is about requests with such a path only. Needs a `protocol` that is inspected.",
        ),
        field(
            "allowed_ips",
            Optional,
            Kind::List(&Kind::Text),
            "Addresses and networks that the name may resolve to. Private addresses need this, unless the name is exact.",
        ),
        field(
            "protocol",
            Optional,
            Kind::Word(PROTOCOLS),
            "`rest` and `websocket` are looked into, request by request; `tcp` is passed on as it is. Without: HTTP is looked into, anything else is passed on.",
        ),
        field(
            "tls",
            Optional,
            Kind::Word(&["skip", "terminate", "passthrough"]),
            "`skip` passes TLS on unopened. The other words are of older versions and change nothing.",
        ),
        field(
            "enforcement",
            Optional,
            Kind::Word(&["audit", "enforce"]),
            "Whether a request that no rule allows is refused (`enforce`) or only logged (`audit`, the default).",
        ),
        field(
            "access",
            Optional,
            Kind::Word(&["read-only", "read-write", "full"]),
            "A ready set of rules, instead of `rules`.",
        ),
        field(
            "rules",
            Optional,
            Kind::List(&Kind::Object(&ALLOW)),
            "The requests that are allowed, instead of `access`.",
        ),
        field(
            "deny_rules",
            Optional,
            Kind::List(&Kind::Object(&REQUEST)),
            "The requests that are refused whatever allows them.",
        ),
        field(
            "allow_encoded_slash",
            Optional,
            Kind::Truth,
            "Whether a path may contain `%2F`, which is then not a separator.",
        ),
        field(
            "credential_binding",
            Later,
            Kind::Any,
            "Which provider's credentials go here.",
        ),
        field(
            "request_body_credential_rewrite",
            Later,
            Kind::Truth,
            "Credentials in bodies.",
        ),
        field(
            "websocket_credential_rewrite",
            Later,
            Kind::Truth,
            "Credentials in messages.",
        ),
        field(
            "allow_uninspected_credentials",
            Later,
            Kind::Truth,
            "Credentials unseen.",
        ),
        field("credential_signing", Later, Kind::Text, "Signed requests."),
        field("signing_service", Later, Kind::Text, "Signed requests."),
        field("signing_region", Later, Kind::Text, "Signed requests."),
        field("persisted_queries", Later, Kind::Any, "GraphQL."),
        field("graphql_persisted_queries", Later, Kind::Any, "GraphQL."),
        field("graphql_max_body_bytes", Later, Kind::Any, "GraphQL."),
        field("mcp", Later, Kind::Any, "MCP."),
        field("json_rpc", Later, Kind::Any, "JSON-RPC."),
    ],
};

const PROTOCOLS: &[&str] = &["tcp", "rest", "websocket"];

/// Protocols that a later version will inspect; until then they are refused with a word of their own.
pub(crate) const LATER_PROTOCOLS: &[&str] = &["graphql", "mcp", "json-rpc"];

const ALLOW: Object = Object {
    fields: &[field(
        "allow",
        Required,
        Kind::Object(&REQUEST),
        "The request.",
    )],
};

const REQUEST: Object = Object {
    fields: &[
        field(
            "method",
            Optional,
            Kind::Text,
            "The HTTP method, or `*`; for `websocket` also `WEBSOCKET_TEXT`, a message of the client.",
        ),
        field(
            "path",
            Optional,
            Kind::Text,
            "The path. `*` stands for any part of a segment, `**` for any segments.",
        ),
        field(
            "query",
            Optional,
            Kind::Map(&Kind::Either(&[Kind::Object(&ANY), Kind::Text])),
            "Parameters by name: a pattern, or `any` of several. `*` stands for anything but a dot.",
        ),
        field("command", Later, Kind::Any, "SQL."),
        field("operation_type", Later, Kind::Any, "GraphQL."),
        field("operation_name", Later, Kind::Any, "GraphQL."),
        field("fields", Later, Kind::Any, "GraphQL."),
        field("params", Later, Kind::Any, "MCP and JSON-RPC."),
        field("tool", Later, Kind::Any, "MCP."),
    ],
};

const ANY: Object = Object {
    fields: &[
        field(
            "any",
            Optional,
            Kind::List(&Kind::Text),
            "One of these patterns.",
        ),
        field("glob", Optional, Kind::Text, "This pattern."),
    ],
};
