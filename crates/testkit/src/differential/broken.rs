//! Statements that are slightly wrong.

use super::draft::Statement;
use super::random::Dice;
use super::schema::Table;

/// The statement with one or two words dropped, doubled, swapped or replaced.
pub(super) fn broken(mut statement: Statement, table: &Table, dice: &mut Dice) -> Statement {
    for _ in 0..dice.between(1, 2) {
        statement.text = mutate(&statement.text, table, dice);
    }
    statement
}

/// Cuts into words and the signs between them.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut in_quotes = false;
    for character in text.chars() {
        let is_word = character.is_alphanumeric() || matches!(character, '_' | '.' | '\'' | '"');
        let joins =
            words.last().and_then(|word: &String| word.chars().last()).is_some_and(|last| {
                in_quotes || is_word && (last.is_alphanumeric() || matches!(last, '_' | '.' | '"'))
            });
        if character == '\'' {
            in_quotes = !in_quotes;
        }
        match words.last_mut() {
            Some(word) if joins => word.push(character),
            _ => words.push(character.to_string()),
        }
    }
    words
}

/// Times that end soon would make the answers depend on the clock, so they stay as they are.
fn is_time(words: &[String], index: usize) -> bool {
    let around = words[index.saturating_sub(2)..=index].concat().to_ascii_uppercase();
    around.contains("TTL") || around.contains("TIMESTAMP")
}

fn mutate(text: &str, table: &Table, dice: &mut Dice) -> String {
    let mut words = words(text);
    if words.is_empty() {
        return text.to_string();
    }
    let index = dice.below(words.len());
    if is_time(&words, index) {
        return text.to_string();
    }
    match dice.below(6) {
        0 => {
            words.remove(index);
        }
        1 => words.insert(index, words[index].clone()),
        2 => {
            let other = dice.below(words.len());
            if !is_time(&words, other) {
                words.swap(index, other);
            }
        }
        3 => words[index] = dice.pick(&table.columns).name.clone(),
        4 => words[index] = "nosuch".into(),
        _ => {
            words[index] = dice
                .word(&["1", "'a'", "null", "0x", "?", "true", "(", ")", ",", "=", "IN", "AND"])
                .into();
        }
    }
    words.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_put_together_are_the_text() {
        let text = "SELECT a, \"B\" FROM t WHERE x = 'it is' AND y >= 1.5";
        assert_eq!(words(text).concat(), text);
        assert!(words(text).contains(&"'it is'".to_string()), "{:?}", words(text));
    }
}
