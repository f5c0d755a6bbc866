//! From the wire: a message becomes a document of the shape of a file, which then passes the same checks as a file.

use openshell_policy::{Checked, Policy, Problems};
use openshell_proto::policy as wire;
use serde_json::{Map, Value, json};

/// Reads a policy of the wire. What a message leaves at its default is not there; a version that is not there is 1.
pub fn from_wire(policy: &wire::SandboxPolicy) -> Result<Checked, Problems> {
    Policy::from_value(document(policy))
}

/// A document under construction: only what is said gets into it.
#[derive(Default)]
struct Object(Map<String, Value>);

impl Object {
    fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.0.insert(key.to_owned(), value.into());
    }

    fn text(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.set(key, text);
        }
    }

    fn truth(&mut self, key: &str, truth: bool) {
        if truth {
            self.set(key, true);
        }
    }

    fn number(&mut self, key: &str, number: u32) {
        if number != 0 {
            self.set(key, number);
        }
    }

    fn list<T>(&mut self, key: &str, items: &[T], item: impl Fn(&T) -> Value) {
        if !items.is_empty() {
            self.set(key, items.iter().map(item).collect::<Vec<_>>());
        }
    }

    fn texts(&mut self, key: &str, texts: &[String]) {
        self.list(key, texts, |text| Value::from(text.as_str()));
    }

    fn end(self) -> Value {
        Value::Object(self.0)
    }
}

fn document(policy: &wire::SandboxPolicy) -> Value {
    let mut root = Object::default();
    root.set("version", policy.version.max(1));
    if let Some(files) = &policy.filesystem {
        let mut object = Object::default();
        object.set("include_workdir", files.include_workdir);
        object.texts("read_only", &files.read_only);
        object.texts("read_write", &files.read_write);
        root.set("filesystem_policy", object.end());
    }
    if let Some(landlock) = &policy.landlock {
        let mut object = Object::default();
        object.text("compatibility", &landlock.compatibility);
        root.set("landlock", object.end());
    }
    if let Some(process) = &policy.process {
        let mut object = Object::default();
        object.text("run_as_user", &process.run_as_user);
        object.text("run_as_group", &process.run_as_group);
        root.set("process", object.end());
    }
    let rules = policy.network_policies.iter();
    let rules: Map<_, _> = rules
        .map(|(key, value)| (key.clone(), rule(value)))
        .collect();
    if !rules.is_empty() {
        root.set("network_policies", rules);
    }
    if !policy.network_middlewares.is_empty() {
        root.set("network_middlewares", json!({}));
    }
    root.end()
}

fn rule(rule: &wire::NetworkPolicyRule) -> Value {
    let mut object = Object::default();
    object.text("name", &rule.name);
    object.list("endpoints", &rule.endpoints, endpoint);
    object.list("binaries", &rule.binaries, |b| json!({ "path": b.path }));
    object.end()
}

fn endpoint(endpoint: &wire::NetworkEndpoint) -> Value {
    let mut object = Object::default();
    object.text("host", &endpoint.host);
    // Clients of either age fill one of the two, or both alike.
    if !endpoint.ports.contains(&endpoint.port) {
        object.number("port", endpoint.port);
    }
    object.list("ports", &endpoint.ports, |port| Value::from(*port));
    object.text("path", &endpoint.path);
    object.texts("allowed_ips", &endpoint.allowed_ips);
    object.text("protocol", &endpoint.protocol);
    object.text("tls", tls(endpoint.tls));
    object.text("enforcement", enforcement(endpoint.enforcement));
    object.text("access", access(endpoint.access));
    object.list("rules", &endpoint.rules, |rule| match &rule.allow {
        Some(allow) => json!({ "allow": request(Request::from(allow)) }),
        None => json!({}),
    });
    object.list("deny_rules", &endpoint.deny_rules, |deny| {
        request(Request::from(deny))
    });
    object.truth("allow_encoded_slash", endpoint.allow_encoded_slash);
    later(endpoint, &mut object);
    object.end()
}

/// What nothing enforces yet goes along by its name, so that it is refused by its name.
fn later(endpoint: &wire::NetworkEndpoint, object: &mut Object) {
    object.text("persisted_queries", &endpoint.persisted_queries);
    object.truth(
        "graphql_persisted_queries",
        !endpoint.graphql_persisted_queries.is_empty(),
    );
    object.number("graphql_max_body_bytes", endpoint.graphql_max_body_bytes);
    object.truth(
        "websocket_credential_rewrite",
        endpoint.websocket_credential_rewrite,
    );
    object.truth(
        "request_body_credential_rewrite",
        endpoint.request_body_credential_rewrite,
    );
    object.truth(
        "allow_uninspected_credentials",
        endpoint.allow_uninspected_credentials,
    );
    object.text("credential_signing", &endpoint.credential_signing);
    object.text("signing_service", &endpoint.signing_service);
    object.text("signing_region", &endpoint.signing_region);
    object.number("json_rpc", endpoint.json_rpc_max_body_bytes);
    object.truth("mcp", endpoint.mcp.is_some());
    object.truth("credential_binding", endpoint.credential_binding.is_some());
    // The gateway's own notes; a policy that a client sends has none.
    object.truth("advisor_proposed", endpoint.advisor_proposed);
    object.truth("provider_credentialed", endpoint.provider_credentialed);
    object.text("token_grant_owner", &endpoint.token_grant_owner);
}

/// A number that the contract does not know is refused as a word that nobody knows.
const UNKNOWN: &str = "unknown";

fn tls(mode: i32) -> &'static str {
    use wire::NetworkTlsMode as Mode;
    match Mode::try_from(mode) {
        Ok(Mode::Unspecified) => "",
        Ok(Mode::Skip) => "skip",
        Ok(Mode::Terminate) => "terminate",
        Ok(Mode::Passthrough) => "passthrough",
        Err(_) => UNKNOWN,
    }
}

fn enforcement(mode: i32) -> &'static str {
    use wire::NetworkEnforcementMode as Mode;
    match Mode::try_from(mode) {
        Ok(Mode::Unspecified) => "",
        Ok(Mode::Enforce) => "enforce",
        Ok(Mode::Audit) => "audit",
        Err(_) => UNKNOWN,
    }
}

fn access(preset: i32) -> &'static str {
    use wire::NetworkAccessPreset as Preset;
    match Preset::try_from(preset) {
        Ok(Preset::Unspecified) => "",
        Ok(Preset::ReadOnly) => "read-only",
        Ok(Preset::ReadWrite) => "read-write",
        Ok(Preset::Full) => "full",
        Err(_) => UNKNOWN,
    }
}

/// The two messages that describe requests have the same fields.
struct Request<'a> {
    method: &'a str,
    path: &'a str,
    query: Vec<(&'a String, &'a wire::L7QueryMatcher)>,
    command: &'a str,
    operation_type: &'a str,
    operation_name: &'a str,
    fields: &'a [String],
    params: bool,
}

macro_rules! same_fields {
    ($($message:ty),*) => {$(
        impl<'a> From<&'a $message> for Request<'a> {
            fn from(message: &'a $message) -> Self {
                Self {
                    method: &message.method,
                    path: &message.path,
                    query: message.query.iter().collect(),
                    command: &message.command,
                    operation_type: &message.operation_type,
                    operation_name: &message.operation_name,
                    fields: &message.fields,
                    params: !message.params.is_empty(),
                }
            }
        }
    )*};
}

same_fields!(wire::L7Allow, wire::L7DenyRule);

fn request(request: Request<'_>) -> Value {
    let mut object = Object::default();
    object.text("method", request.method);
    object.text("path", request.path);
    let query: Map<_, _> = request
        .query
        .into_iter()
        .map(|(key, matcher)| (key.clone(), parameter(matcher)))
        .collect();
    if !query.is_empty() {
        object.set("query", query);
    }
    object.text("command", request.command);
    object.text("operation_type", request.operation_type);
    object.text("operation_name", request.operation_name);
    object.texts("fields", request.fields);
    object.truth("params", request.params);
    object.end()
}

fn parameter(matcher: &wire::L7QueryMatcher) -> Value {
    let mut object = Object::default();
    object.text("glob", &matcher.glob);
    object.texts("any", &matcher.any);
    object.end()
}
