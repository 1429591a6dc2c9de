//! What a message says by JSON-RPC 2.0, and how answers and errors are written.
//! It does not know any method.
#![forbid(unsafe_code)]

use serde_json::{Map, Value, json};
use shardrun::{LaneClass, LaneError, QueueScope};

/// The name that a client gave a request: a whole number or a text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Id {
    Number(i64),
    Text(String),
}

impl Id {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => number.as_i64().map(Id::Number),
            Value::String(text) => Some(Id::Text(text.clone())),
            _ => None,
        }
    }

    fn json(&self) -> Value {
        match self {
            Id::Number(number) => (*number).into(),
            Id::Text(text) => text.as_str().into(),
        }
    }
}

/// Parameters by name.
pub(super) type Params = Map<String, Value>;

/// What a message says.
#[derive(Debug)]
pub(super) enum Message {
    Request(Id, String, Params),
    Notification(String, Params),
    /// An answer, though nothing was asked.
    Answer,
}

/// An error with the request that it answers, if that had a name.
pub(super) type Refused = (Option<Id>, Failure);

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    /// What the protocol answers to one that is none.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Refused> {
        let value: Value = serde_json::from_slice(bytes).map_err(|error| (None, Failure::parse(&error.to_string())))?;
        let Value::Object(mut fields) = value else {
            let why = if value.is_array() { "batches are not taken" } else { "not an object" };
            return Err((None, Failure::invalid(why)));
        };
        let id = fields.get("id").map(Id::of);
        let named = id.clone().flatten();
        let refuse = |why| Err((named.clone(), Failure::invalid(why)));
        if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return refuse("jsonrpc is not \"2.0\"");
        }
        let method = match fields.remove("method") {
            Some(Value::String(method)) => method,
            None if fields.contains_key("result") || fields.contains_key("error") => return Ok(Self::Answer),
            _ => return refuse("no method"),
        };
        let params = match fields.remove("params") {
            None | Some(Value::Null) => Params::new(),
            Some(Value::Object(params)) => params,
            Some(_) if named.is_some() => return Err((named, Failure::params("params is not an object"))),
            Some(_) => return refuse("params is not an object"),
        };
        match id {
            None => Ok(Self::Notification(method, params)),
            Some(Some(id)) => Ok(Self::Request(id, method, params)),
            Some(None) => refuse("id is neither a whole number nor a text"),
        }
    }
}

/// Why a request has no result.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) code: i64,
    /// A short name that does not change.
    name: &'static str,
    pub(super) message: String,
    /// Whether the same request may succeed a little later.
    retry: bool,
    more: Params,
}

pub(super) const PARSE: i64 = -32_700;
pub(super) const INVALID: i64 = -32_600;
pub(super) const NO_METHOD: i64 = -32_601;
pub(super) const PARAMS: i64 = -32_602;
pub(super) const INTERNAL: i64 = -32_603;
/// As the Language Server Protocol has it.
pub(super) const CANCELLED: i64 = -32_800;
pub(super) const BUSY: i64 = -32_001;
pub(super) const TOO_LARGE: i64 = -32_002;
pub(super) const ENDING: i64 = -32_003;
pub(super) const NO_ROOT: i64 = -32_004;
pub(super) const NO_FILE: i64 = -32_005;
pub(super) const UNREADABLE: i64 = -32_006;
pub(super) const BROKEN: i64 = -32_007;

impl Failure {
    pub(super) fn new(code: i64, name: &'static str, message: impl Into<String>) -> Self {
        Failure { code, name, message: message.into(), retry: false, more: Params::new() }
    }

    fn parse(why: &str) -> Self {
        Self::new(PARSE, "parse_error", why)
    }

    pub(super) fn framing(why: &str) -> Self {
        Self::new(PARSE, "malformed_headers", why)
    }

    pub(super) fn invalid(why: &str) -> Self {
        Self::new(INVALID, "invalid_request", why)
    }

    pub(super) fn in_use(id: &Id) -> Self {
        Self::invalid("a request of this id is open").with("id", id.json())
    }

    pub(super) fn params(why: impl Into<String>) -> Self {
        Self::new(PARAMS, "invalid_params", why)
    }

    pub(super) fn cancelled() -> Self {
        Self::new(CANCELLED, "request_cancelled", "the request was cancelled")
    }

    pub(super) fn ending() -> Self {
        Self::new(ENDING, "executor_shutdown", "the daemon ends")
    }

    pub(super) fn not_open() -> Self {
        Self::new(NO_ROOT, "actor_not_registered", "the root is not open; `open` opens it")
    }

    pub(super) fn too_large(size: u64, limit: u64) -> Self {
        let failure = Self::new(TOO_LARGE, "request_too_large", format!("{size} bytes are more than {limit}"));
        failure.with("size", size).with("limit", limit)
    }

    /// Something that is bounded is full.
    pub(super) fn busy(name: &'static str, scope: &'static str, depth: u64, cap: u64) -> Self {
        let message = format!("too much is open of the {scope}: {depth} of {cap}");
        Self { retry: true, ..Self::new(BUSY, name, message) }
            .with("scope", scope)
            .with("depth", depth)
            .with("cap", cap)
    }

    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.into(), value.into());
        self
    }

    pub(super) fn retried(mut self) -> Self {
        self.retry = true;
        self
    }

    /// What a lane job was answered instead of a result.
    pub(super) fn of(error: &LaneError) -> Self {
        let (name, message) = (error.code(), error.to_string());
        match error {
            LaneError::Backpressure(full) => {
                let scope = match full.scope {
                    QueueScope::Actor => "root",
                    _ => "daemon",
                };
                let class = if full.class == LaneClass::Interactive { "interactive" } else { "maintenance" };
                Self::busy(name, scope, full.depth.into(), full.cap.into()).with("class", class)
            }
            LaneError::Cancelled => Self::cancelled(),
            LaneError::Shutdown => Self::ending(),
            LaneError::NotRegistered => Self::not_open(),
            LaneError::Removed => Self::new(NO_ROOT, name, "the root was closed"),
            LaneError::Reset => Self::new(NO_ROOT, name, message).retried(),
            LaneError::Fatal => Self::new(BROKEN, name, "an edit of the root has panicked; open it again"),
            _ => Self::new(INTERNAL, name, message),
        }
    }

    fn json(self) -> Value {
        let mut data = self.more;
        data.insert("code".into(), self.name.into());
        data.insert("retry".into(), self.retry.into());
        json!({ "code": self.code, "message": self.message, "data": data })
    }
}

/// A result, as JSON text, or why there is none.
pub(super) type Outcome = Result<String, Failure>;

/// The message that answers a request.
pub(super) fn answer(id: &Id, outcome: Outcome) -> String {
    match outcome {
        Ok(result) => format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{}}}", id.json(), result.trim_end()),
        Err(failure) => refusal(Some(id), failure),
    }
}

/// The message that answers what is no request, or a request with an error.
pub(super) fn refusal(id: Option<&Id>, failure: Failure) -> String {
    json!({ "jsonrpc": "2.0", "id": id.map(Id::json), "error": failure.json() }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (Option<Id>, i64) {
        let (id, failure) = Message::read(text.as_bytes()).unwrap_err();
        (id, failure.code)
    }

    #[test]
    fn what_is_no_message_is_answered_by_the_protocols_codes() {
        assert_eq!(refused("{"), (None, PARSE));
        assert_eq!(refused(&"[".repeat(100_000)), (None, PARSE));
        assert_eq!(refused("\u{feff}{}"), (None, PARSE));
        assert_eq!(refused("[]"), (None, INVALID));
        assert_eq!(refused("7"), (None, INVALID));
        assert_eq!(refused("{\"id\":1}"), (Some(Id::Number(1)), INVALID));
        assert_eq!(
            refused("{\"jsonrpc\":\"1.0\",\"id\":\"a\",\"method\":\"m\"}"),
            (Some(Id::Text("a".into())), INVALID)
        );
        assert_eq!(refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":2}"), (Some(Id::Number(1)), INVALID));
        assert_eq!(refused("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"m\"}"), (None, INVALID));
        assert_eq!(refused("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}"), (None, INVALID));
        assert_eq!(
            refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":[1]}"),
            (Some(Id::Number(1)), PARAMS)
        );
    }

    #[test]
    fn answers_and_requests_are_told_apart() {
        let read = |text: &str| Message::read(text.as_bytes()).unwrap();
        assert!(matches!(read("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}"), Message::Answer));
        assert!(matches!(read("{\"jsonrpc\":\"2.0\",\"method\":\"m\"}"), Message::Notification(..)));
        assert!(matches!(
            read("{\"jsonrpc\":\"2.0\",\"id\":-3,\"method\":\"m\"}"),
            Message::Request(Id::Number(-3), ..)
        ));
    }
}
