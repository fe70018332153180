//! What is true in the end, or the run is a finding.

use testkit::history::{
    Counter, CounterInput, CounterOutput, Operation, Register, RegisterInput, RegisterOutput,
    Verdict, by_key, check, counter_bounds,
};

use crate::clients::{Asked, Told};
use crate::tables::{Ask, Key};

/// Whether what clients saw can be explained; if not, why.
pub(crate) fn judge(asked: &[Asked]) -> Result<(), String> {
    // A batch is a write to each of its keys: it is not isolated.
    let of_key = |it: &'_ Asked| -> Vec<Key> {
        [it.key].into_iter().chain(it.also.iter().copied()).collect()
    };
    // Where clients give the times, what is later need not be what is seen.
    let is_judged = |it: &&Asked| !it.key.is_counter() && !it.key.is_timed_by_clients();
    let registers = asked.iter().filter(is_judged);
    let registers = registers.flat_map(|it| of_key(it).into_iter().map(move |key| (key, it)));
    for (key, history) in by_key(registers.filter_map(|(key, it)| Some((key, register(it)?)))) {
        let verdict = check(&Register { initial: None }, &history);
        if verdict != Verdict::Linearizable {
            return Err(format!("register {}: {verdict}", key.0));
        }
    }
    let counters = asked.iter().filter(|it| it.key.is_counter());
    let counters = counters.flat_map(|it| of_key(it).into_iter().map(move |key| (key, it)));
    for (key, history) in by_key(counters.filter_map(|(key, it)| Some((key, counter(it)?)))) {
        counter_bounds(&history).map_err(|flaw| format!("counter {}: {flaw}", key.0))?;
        let open = history.iter().filter(|it| it.return_at.is_none()).count();
        // Each addition that was not answered doubles the search.
        if open <= OPEN_MAX {
            let verdict = check(&Counter, &history);
            if matches!(verdict, Verdict::NotLinearizable(_)) {
                return Err(format!("counter {}: {verdict}", key.0));
            }
        }
    }
    Ok(())
}

const OPEN_MAX: usize = 6;

fn register(asked: &Asked) -> Option<Operation<RegisterInput<i64>, RegisterOutput<i64>>> {
    let input = match asked.ask {
        Ask::Read => RegisterInput::Read,
        Ask::Write(value) => RegisterInput::Write(Some(value)),
        Ask::Delete => RegisterInput::Write(None),
        Ask::CompareAndSet { expected, new } => {
            RegisterInput::CompareAndSet { expected, new: Some(new) }
        }
        Ask::Add(_) => return None,
    };
    let is_condition = matches!(asked.ask, Ask::CompareAndSet { .. });
    let output = match &asked.told {
        // A read that was not answered says nothing.
        Told::Unknown if asked.ask == Ask::Read => return None,
        Told::Unknown => None,
        Told::Unavailable => return None,
        Told::Value(value) => Some(RegisterOutput::Value(*value)),
        Told::Done if is_condition => Some(RegisterOutput::Applied),
        Told::Done => Some(RegisterOutput::Written),
        Told::NotApplied(current) => Some(RegisterOutput::NotApplied { current: *current }),
    };
    let return_at = output.as_ref().and(asked.return_at);
    let (client, call_at) = (asked.client, asked.call_at);
    Some(Operation { client, call_at, return_at, input, output })
}

fn counter(asked: &Asked) -> Option<Operation<CounterInput, CounterOutput>> {
    let input = match asked.ask {
        Ask::Read => CounterInput::Read,
        Ask::Add(amount) => CounterInput::Add(amount),
        Ask::Write(_) | Ask::Delete | Ask::CompareAndSet { .. } => return None,
    };
    let output = match &asked.told {
        Told::Unknown if asked.ask == Ask::Read => return None,
        Told::Unknown => None,
        Told::Unavailable => return None,
        Told::Value(value) => Some(CounterOutput::Value(value.unwrap_or(0))),
        Told::Done => Some(CounterOutput::Added),
        Told::NotApplied(_) => return None,
    };
    let return_at = output.as_ref().and(asked.return_at);
    let (client, call_at) = (asked.client, asked.call_at);
    Some(Operation { client, call_at, return_at, input, output })
}
