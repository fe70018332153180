//! The settings of spans.

use super::super::form::{self, BadValue, Form};
use super::super::traces::Endpoint;
use super::Setting;

pub(super) static TRACES: &[Setting] = &[
    setting!(
        "traces.endpoint",
        Form::Url,
        "",
        "Who collects the spans of requests for OpenTelemetry: they are sent by OTLP over HTTP, as JSON.\nEmpty: nobody, and requests are not traced.",
        traces.endpoint = endpoint
    ),
    setting!(
        "traces.one_in",
        Form::Count,
        "1",
        "One request in so many is traced. A client that sends a traceparent in the custom payload of a\nrequest decides for itself.",
        traces.one_in = |text| form::count_of_at_least(text, 1)
    ),
];

fn endpoint(text: &str) -> Result<Option<Endpoint>, BadValue> {
    match text {
        "" => Ok(None),
        text => Endpoint::parse(text).map(Some).ok_or(BadValue),
    }
}
