//! EXPLAIN of a statement that was prepared, or that took long, asked by the node itself for somebody who looks at its dashboard. It goes the way of every
//! request: the role needs what it would need as a client, and nothing is executed.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::Waker;

use bytes::BytesMut;
use protocol::{
    Consistency, FrameDecoder, QueryParameters, Request, RequestMessage, Response, ResponseMessage,
    Value, ValuesBuilder, Version,
};
use replica::{AnswerTo, CommitResult, Mailbox};
use types::CqlType;
use types::value::parse_text;

use super::cache::Statement;
use super::engine::Engine;
use crate::session::{Client, Statements, Step, Turn};
use crate::world;

/// Neither a statement nor its explanation has more bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// The stream of the only request.
const STREAM: i16 = 0;

/// Which statement is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Explained {
    /// A prepared one, by its id.
    Prepared(u128),
    /// One that took long or cost much, by its number.
    Slow(i64),
}

/// What is known of it.
struct Known {
    text: String,
    keyspace: Option<Arc<str>>,
    /// Names and types of what is to be bound, or why it cannot be planned.
    bind: Result<Vec<(String, CqlType)>, String>,
}

/// A statement and what becomes of it.
pub(crate) struct Explanation {
    pub(crate) text: String,
    /// What is to be bound: names and types.
    pub(crate) variables: Vec<(String, String)>,
    /// None before values are given.
    pub(crate) outcome: Option<Result<Vec<ExplainedStep>, String>>,
}

/// A step of it.
pub(crate) struct ExplainedStep {
    pub(crate) what: String,
    pub(crate) partitions: Vec<i32>,
    pub(crate) rows: Option<i64>,
    pub(crate) bytes: Option<i64>,
    pub(crate) charge: Option<f64>,
}

/// Nothing is changed, so nothing is promised.
#[derive(Debug)]
struct NoMail;

impl Mailbox for NoMail {
    fn put(&self, _number: u64, _result: CommitResult) -> Option<Waker> {
        None
    }
}

impl Engine {
    /// How a statement would be run with values as a person writes them; an empty one is null. Without values it is only told what is
    /// wanted, unless nothing is. `None`: there is no such statement.
    pub(crate) async fn explain(
        &self,
        which: Explained,
        values: Option<&[String]>,
        (role, from): (Option<Arc<str>>, IpAddr),
    ) -> Option<Explanation> {
        let known = match which {
            Explained::Prepared(id) => self.known_prepared(id)?,
            Explained::Slow(number) => self.known_slow(number)?,
        };
        let Known { text, keyspace, bind } = known;
        let bind = match bind {
            Ok(bind) => bind,
            Err(why) => {
                return Some(Explanation { text, variables: Vec::new(), outcome: Some(Err(why)) });
            }
        };
        let types: Vec<CqlType> = bind.iter().map(|(_, cql_type)| cql_type.clone()).collect();
        let variables = bind.into_iter().map(|(name, cql_type)| (name, cql_type.to_string()));
        let mut explanation = Explanation { text, variables: variables.collect(), outcome: None };
        let given = match values {
            None if types.is_empty() => &[][..],
            None => return Some(explanation),
            Some(values) => values,
        };
        let client = Client {
            address: SocketAddr::new(from, 0),
            keyspace,
            role,
            seat: None,
            learns_routes: false,
        };
        let text = format!("EXPLAIN {}", explanation.text);
        explanation.outcome = Some(match bound(&types, given) {
            Ok(values) => self.ask(&client, &text, &values).await,
            Err(problem) => Err(problem),
        });
        Some(explanation)
    }

    fn known_prepared(&self, id: u128) -> Option<Known> {
        let all = self.prepared();
        let statement = all.into_iter().find(|it| u128::from_be_bytes(it.plan.id) == id)?;
        Some(Known {
            text: statement.shown_text().into_owned(),
            keyspace: statement.plan.keyspace.clone(),
            bind: Ok(bind_of(&statement)),
        })
    }

    /// Its values were hidden, or were never in its text: they are asked for, as those of a prepared one.
    fn known_slow(&self, number: i64) -> Option<Known> {
        let slow = self.0.slow.find(number).filter(|slow| slow.is_explainable)?;
        let schema = self.0.executor.schema();
        let planned = Statement::plan(&slow.text, &schema, slow.keyspace.as_deref());
        Some(Known {
            text: slow.text,
            keyspace: slow.keyspace,
            bind: planned.map(|statement| bind_of(&statement)).map_err(|error| error.to_string()),
        })
    }

    async fn ask(
        &self,
        client: &Client,
        text: &str,
        values: &[Option<Vec<u8>>],
    ) -> Result<Vec<ExplainedStep>, String> {
        let broken = || "the node could not ask itself".to_owned();
        let message = self.ask_for_message(client, text, values).await.ok_or_else(broken)?;
        let mut decoder = FrameDecoder::for_responses(MESSAGE_BYTES_MAX);
        let mut bytes = message;
        let frame = decoder.decode(&mut bytes).ok().flatten().ok_or_else(broken)?;
        match ResponseMessage::decode(&frame).map_err(|error| error.to_string())?.response {
            Response::Rows(rows) => Ok(rows.rows().map(|row| step(&row)).collect()),
            Response::Error(error) => Err(error.message),
            _ => Err(broken()),
        }
    }

    /// The answer as one whole message.
    async fn ask_for_message(
        &self,
        client: &Client,
        text: &str,
        values: &[Option<Vec<u8>>],
    ) -> Option<BytesMut> {
        let mut out = BytesMut::new();
        let step = {
            let mut builder = ValuesBuilder::positional(Version::V4);
            for value in values {
                builder.push("", value.as_deref().map_or(Value::Null, Value::Bytes));
            }
            let mut parameters = QueryParameters::new(Version::V4, Consistency::One);
            parameters.values = builder.values();
            let message = RequestMessage::new(Request::Query { text, parameters });
            let mut sent = BytesMut::new();
            message.encode(Version::V4, STREAM, &mut sent);
            let mut decoder = FrameDecoder::for_requests(MESSAGE_BYTES_MAX);
            let frame = decoder.decode(&mut sent).ok().flatten()?;
            let message = RequestMessage::decode(&frame).ok()?;
            let mailbox: Arc<dyn Mailbox> = Arc::new(NoMail);
            let turn = Turn {
                arrived: world::now(),
                answer_to: AnswerTo { mailbox: &mailbox, number: 0 },
                throws: true,
                is_again: false,
                was_slowed: false,
                place: &mut None,
            };
            self.serve(client, &frame, &message, turn, &mut out)
        };
        match step {
            Step::Answered(_) => Some(out),
            Step::Waits(wait) => Some(wait.await.message),
            Step::Promised(_) | Step::HeldBack(_) => None,
        }
    }
}

/// Names and types of what is bound to a statement.
fn bind_of(statement: &Statement) -> Vec<(String, CqlType)> {
    statement.bind.iter().map(|it| (it.name.to_string(), it.cql_type.clone())).collect()
}

/// Values as bytes.
fn bound(types: &[CqlType], given: &[String]) -> Result<Vec<Option<Vec<u8>>>, String> {
    let value = |(place, cql_type): (usize, &CqlType)| match given.get(place).map(String::as_str) {
        None | Some("") => Ok(None),
        Some(text) => parse_text(cql_type, text)
            .map(Some)
            .map_err(|error| format!("value {}: {error}", place + 1)),
    };
    types.iter().enumerate().map(value).collect()
}

fn step(row: &[Option<&[u8]>]) -> ExplainedStep {
    let bytes = |place: usize| row.get(place).copied().flatten();
    let number = |place| bytes(place).and_then(|it| Some(i64::from_be_bytes(it.try_into().ok()?)));
    let charge = bytes(5).and_then(|it| Some(f64::from_be_bytes(it.try_into().ok()?)));
    ExplainedStep {
        what: bytes(1).map(String::from_utf8_lossy).unwrap_or_default().into_owned(),
        partitions: bytes(2).map(list_of_ints).unwrap_or_default(),
        rows: number(3),
        bytes: number(4),
        charge,
    }
}

/// The elements of a list: a count, then a length and four bytes for each.
fn list_of_ints(bytes: &[u8]) -> Vec<i32> {
    let Some((_, elements)) = bytes.split_first_chunk::<4>() else { return Vec::new() };
    let element = |chunk: &[u8]| {
        let (_, value) = chunk.split_first_chunk::<4>()?;
        Some(i32::from_be_bytes(value.try_into().ok()?))
    };
    elements.chunks_exact(8).filter_map(element).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_by_their_types() {
        let types = [CqlType::Int, CqlType::Text];
        let given = |values: [&str; 2]| bound(&types, &values.map(str::to_owned));
        assert_eq!(
            given(["7", "a"]).unwrap(),
            [Some(7_i32.to_be_bytes().to_vec()), Some(b"a".to_vec())]
        );
        assert_eq!(given(["", ""]).unwrap(), [None, None]);
        assert!(given(["x", ""]).unwrap_err().starts_with("value 1: "));
        let list = [0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0, 9, 1];
        assert_eq!(list_of_ints(&list), [7, 9]);
        assert!(list_of_ints(&[1]).is_empty());
    }
}
