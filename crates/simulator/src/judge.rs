//! What is true in the end, or the run is a finding.

use testkit::history::{
    AppendList, Counter, CounterInput, CounterOutput, ListInput, ListOutput, Operation, Register,
    RegisterInput, RegisterOutput, Verdict, appended_once, by_key, check, counter_bounds,
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
    let is_register = |key: Key| !key.is_counter() && !key.is_list() && !key.is_timed_by_clients();
    let is_judged = |it: &&Asked| is_register(it.key);
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
    judge_lists(asked)
}

/// No order of elements ever changes, and each that was acknowledged is there once.
fn judge_lists(asked: &[Asked]) -> Result<(), String> {
    let lists = asked.iter().filter(|it| it.key.is_list());
    for (key, history) in by_key(lists.filter_map(|it| Some((it.key, list(it)?)))) {
        let read = history.iter().rev().find_map(|it| match &it.output {
            Some(ListOutput::List(list)) => Some(list.as_slice()),
            _ => None,
        });
        // What all members have in the end is the last read.
        appended_once(&history, read.unwrap_or_default())
            .map_err(|flaws| format!("list {}: {flaws:?}", key.0))?;
        let verdict = check(&AppendList::of(&history), &history);
        if matches!(verdict, Verdict::NotLinearizable(_)) {
            return Err(format!("list {}: {verdict}", key.0));
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
        Ask::Add(_) | Ask::Append(_) => return None,
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
        Told::List(_) => return None,
    };
    let return_at = output.as_ref().and(asked.return_at);
    let (client, call_at) = (asked.client, asked.call_at);
    Some(Operation { client, call_at, return_at, input, output })
}

fn counter(asked: &Asked) -> Option<Operation<CounterInput, CounterOutput>> {
    let input = match asked.ask {
        Ask::Read => CounterInput::Read,
        Ask::Add(amount) => CounterInput::Add(amount),
        Ask::Write(_) | Ask::Delete | Ask::CompareAndSet { .. } | Ask::Append(_) => return None,
    };
    let output = match &asked.told {
        Told::Unknown if asked.ask == Ask::Read => return None,
        Told::Unknown => None,
        Told::Unavailable => return None,
        Told::Value(value) => Some(CounterOutput::Value(value.unwrap_or(0))),
        Told::Done => Some(CounterOutput::Added),
        Told::NotApplied(_) | Told::List(_) => return None,
    };
    let return_at = output.as_ref().and(asked.return_at);
    let (client, call_at) = (asked.client, asked.call_at);
    Some(Operation { client, call_at, return_at, input, output })
}

fn list(asked: &Asked) -> Option<Operation<ListInput<i64>, ListOutput<i64>>> {
    let input = match asked.ask {
        Ask::Read => ListInput::Read,
        Ask::Append(element) => ListInput::Append(element),
        Ask::Write(_) | Ask::Delete | Ask::CompareAndSet { .. } | Ask::Add(_) => return None,
    };
    let output = match &asked.told {
        Told::Unknown if asked.ask == Ask::Read => return None,
        Told::Unknown => None,
        Told::Unavailable => return None,
        Told::List(list) => Some(ListOutput::List(list.clone())),
        Told::Done => Some(ListOutput::Appended),
        Told::Value(_) | Told::NotApplied(_) => return None,
    };
    let return_at = output.as_ref().and(asked.return_at);
    let (client, call_at) = (asked.client, asked.call_at);
    Some(Operation { client, call_at, return_at, input, output })
}
