//! Random histories: what was made from an order is accepted, what a slow and simple judge refuses is refused.

use super::*;
use crate::differential::random::Dice;

/// Tries every order of every choice of open operations, without any of the search's shortcuts.
fn is_explained<M: Model>(model: &M, history: &[OperationOf<M>]) -> bool {
    fn from<M: Model>(
        model: &M,
        history: &[OperationOf<M>],
        state: &M::State,
        placed: &mut Vec<usize>,
    ) -> bool {
        let left =
            |placed: &[usize]| (0..history.len()).filter(|at| !placed.contains(at)).collect();
        let unplaced: Vec<usize> = left(placed);
        if unplaced.iter().all(|at| history[*at].return_at.is_none()) {
            return true;
        }
        let earliest_return = unplaced.iter().filter_map(|at| history[*at].return_at).min();
        for at in unplaced {
            let operation = &history[at];
            if earliest_return.is_some_and(|earliest| earliest < operation.call_at) {
                continue;
            }
            let output = operation.output.as_ref().filter(|_| operation.return_at.is_some());
            let Some(next) = model.step(state, &operation.input, output) else { continue };
            placed.push(at);
            if from(model, history, &next, placed) {
                return true;
            }
            placed.pop();
        }
        false
    }
    from(model, history, &model.initial(), &mut Vec::new())
}

/// A history that was made by letting operations take effect one after the other; their intervals overlap.
struct Made {
    clients: usize,
    operations: usize,
    open_percent: usize,
}

impl Made {
    /// `operate` makes the next operation and applies it: its input, and what is answered.
    fn history<I, O>(
        &self,
        dice: &mut Dice,
        mut operate: impl FnMut(&mut Dice) -> (I, O),
    ) -> Vec<Operation<I, O>> {
        let mut free_at = vec![0; self.clients];
        let mut history = Vec::new();
        for number in 0..self.operations {
            // It takes effect at this moment, and began and ended somewhere around it.
            let effect_at = 100 * (number as u64 + 1);
            let client = dice.below(self.clients);
            let earliest = free_at[client].min(effect_at);
            let begun_ago = dice.below((effect_at - earliest).min(400) as usize + 1) as u64;
            let return_at = effect_at + dice.below(400) as u64;
            let (input, output) = operate(dice);
            let is_open = dice.chance(self.open_percent);
            free_at[client] = return_at + 1;
            history.push(Operation {
                client: client as u32,
                call_at: effect_at - begun_ago,
                return_at: (!is_open).then_some(return_at),
                input,
                output: (!is_open).then_some(output),
            });
        }
        history
    }

    fn register(&self, dice: &mut Dice) -> Vec<OperationOf<Register<u64>>> {
        let mut state = None;
        let mut fresh = 0;
        self.history(dice, |dice| {
            fresh += 1;
            match dice.below(4) {
                0 | 1 => (RegisterInput::Read, RegisterOutput::Value(state)),
                2 => {
                    state = Some(fresh % 4);
                    (RegisterInput::Write(state), RegisterOutput::Written)
                }
                _ => {
                    let expected = if dice.chance(60) { state } else { Some(dice.below(4) as u64) };
                    let input = RegisterInput::CompareAndSet { expected, new: Some(fresh % 5) };
                    if expected != state {
                        return (input, RegisterOutput::NotApplied { current: state });
                    }
                    state = Some(fresh % 5);
                    (input, RegisterOutput::Applied)
                }
            }
        })
    }

    fn counter(&self, dice: &mut Dice) -> Vec<OperationOf<Counter>> {
        let mut state = 0;
        self.history(dice, |dice| {
            if dice.chance(50) {
                return (CounterInput::Read, CounterOutput::Value(state));
            }
            let amount = dice.between(1, 3) as i64 - 1;
            state += amount;
            (CounterInput::Add(amount), CounterOutput::Added)
        })
    }

    fn list(&self, dice: &mut Dice) -> Vec<OperationOf<AppendList<u64>>> {
        let mut state = Vec::new();
        self.history(dice, |dice| {
            if dice.chance(50) {
                return (ListInput::Read, ListOutput::List(state.clone()));
            }
            let element = state.len() as u64;
            state.push(element);
            (ListInput::Append(element), ListOutput::Appended)
        })
    }
}

/// Changes one answer, so that the history may be impossible.
fn mutate<I, O>(
    dice: &mut Dice,
    history: &mut [Operation<I, O>],
    mut change: impl FnMut(&mut Dice, &mut O),
) {
    let place = dice.below(history.len());
    if let Some(output) = &mut history[place].output {
        change(dice, output);
    }
}

fn change_register(dice: &mut Dice, output: &mut RegisterOutput<u64>) {
    let other = Some(dice.below(5) as u64).filter(|value| *value != 4);
    *output = match output {
        RegisterOutput::Value(_) => RegisterOutput::Value(other),
        RegisterOutput::Written => RegisterOutput::Refused,
        RegisterOutput::Applied => RegisterOutput::NotApplied { current: other },
        RegisterOutput::NotApplied { .. } | RegisterOutput::Refused => RegisterOutput::Applied,
    };
}

fn change_counter(dice: &mut Dice, output: &mut CounterOutput) {
    *output = match output {
        CounterOutput::Value(value) => CounterOutput::Value(*value + dice.between(0, 4) as i64 - 2),
        CounterOutput::Added | CounterOutput::Refused => CounterOutput::Refused,
    };
}

fn change_list(dice: &mut Dice, output: &mut ListOutput<u64>) {
    match output {
        ListOutput::List(list) if dice.chance(50) => drop(list.pop()),
        ListOutput::List(list) => dice.shuffle(list),
        ListOutput::Appended | ListOutput::Refused => *output = ListOutput::Refused,
    }
}

/// Both judges on small histories, as made and with one answer changed: how many were refused.
fn compare<M: Model>(
    seeds: u64,
    make: impl Fn(&Made, &mut Dice) -> Vec<OperationOf<M>>,
    model_of: impl Fn(&[OperationOf<M>]) -> M,
    mut change: impl FnMut(&mut Dice, &mut M::Output),
) -> usize {
    let mut refused = 0;
    for seed in 0..seeds {
        let mut dice = Dice::new(seed);
        let made = Made {
            clients: dice.between(2, 5),
            operations: dice.between(1, 7),
            open_percent: dice.below(3) * 20,
        };
        let mut history = make(&made, &mut dice);
        let verdict = check(&model_of(&history), &history);
        assert!(verdict.is_linearizable(), "seed {seed}: {verdict}");
        for _ in 0..dice.between(1, 2) {
            mutate(&mut dice, &mut history, &mut change);
        }
        let model = model_of(&history);
        let verdict = check(&model, &history);
        let expected = is_explained(&model, &history);
        assert_eq!(verdict.is_linearizable(), expected, "seed {seed}: {verdict}");
        refused += usize::from(!expected);
    }
    refused
}

#[test]
fn small_histories_are_judged_as_by_trying_all_orders() {
    let seeds = 4_000;
    let refused = [
        compare(seeds, Made::register, |_| Register { initial: None }, change_register),
        compare(seeds, Made::counter, |_| Counter, change_counter),
        compare(seeds, Made::list, AppendList::of, change_list),
    ];
    // Both verdicts must be common, or nothing was tried.
    for count in refused {
        assert!(count > seeds as usize / 10 && count < seeds as usize * 9 / 10, "{refused:?}");
    }
}

/// The model of lists looks ahead; without that it must say the same.
#[test]
fn foresight_changes_no_verdict() {
    for seed in 0..2_000 {
        let mut dice = Dice::new(seed);
        let made = Made { clients: 4, operations: 6, open_percent: 30 };
        let mut history = made.list(&mut dice);
        mutate(&mut dice, &mut history, change_list);
        let without = is_explained(&AppendList::of(&[]), &history);
        let verdict = check(&AppendList::of(&history), &history);
        assert_eq!(verdict.is_linearizable(), without, "seed {seed}: {verdict}");
    }
}

#[test]
fn long_histories_are_accepted_and_broken_ones_refused() {
    let made = Made { clients: 8, operations: 200, open_percent: 5 };
    for seed in 0..60 {
        let mut dice = Dice::new(seed);
        // Within far fewer configurations than the bound: that is what makes it quick.
        let quickly = 15_000;
        let mut history = made.register(&mut dice);
        let verdict = check_within(&Register { initial: None }, &history, quickly);
        assert!(verdict.is_linearizable(), "seed {seed}: {verdict}");
        let is_read = |operation: &&mut OperationOf<Register<u64>>| {
            matches!(operation.output, Some(RegisterOutput::Value(_)))
        };
        let read = history.iter_mut().filter(is_read).nth(30).expect("many reads");
        read.output = Some(RegisterOutput::Value(Some(77)));
        let verdict = check_within(&Register { initial: None }, &history, quickly);
        assert!(matches!(verdict, Verdict::NotLinearizable(_)), "seed {seed}: {verdict}");

        let mut history = made.counter(&mut dice);
        let verdict = check_within(&Counter, &history, quickly);
        assert!(verdict.is_linearizable(), "seed {seed}: {verdict}");
        assert_eq!(counter_bounds(&history), Ok(()), "seed {seed}");
        let last = history.iter_mut().rev().find_map(|operation| match &mut operation.output {
            Some(CounterOutput::Value(value)) => Some(value),
            _ => None,
        });
        *last.expect("many reads") += 1_000;
        assert!(counter_bounds(&history).is_err(), "seed {seed}");
        let verdict = check_within(&Counter, &history, quickly);
        assert!(matches!(verdict, Verdict::NotLinearizable(_)), "seed {seed}: {verdict}");

        let history = made.list(&mut dice);
        let verdict = check_within(&AppendList::of(&history), &history, quickly);
        assert!(verdict.is_linearizable(), "seed {seed}: {verdict}");
    }
}
