//! `WITH key = value AND ...`.

use std::collections::HashSet;

use super::cursor::{Failure, Parse, Parser};
use crate::ast::{Constant, ConstantKind, Name, Properties, PropertyValue, Term};
use crate::lexer::{Class, Token};

/// Properties as they come, each key once.
#[derive(Default)]
pub(super) struct PropertyList {
    properties: Vec<(Name, PropertyValue)>,
    keys: HashSet<Name>,
}

impl PropertyList {
    pub(super) fn finish(self) -> Properties {
        Properties(self.properties)
    }
}

impl Parser<'_> {
    pub(super) fn properties(&mut self) -> Parse<Properties> {
        let mut list = PropertyList::default();
        self.property(&mut list)?;
        while self.eat(Token::And) {
            self.property(&mut list)?;
        }
        Ok(list.finish())
    }

    pub(super) fn property(&mut self, list: &mut PropertyList) -> Parse<()> {
        let key = self.ident()?;
        self.expect(Token::Equal)?;
        let value = if self.peek() == Token::LeftBrace {
            PropertyValue::Map(self.property_map()?)
        } else {
            PropertyValue::Text(self.property_text()?)
        };
        if list.keys.insert(key.clone()) {
            list.properties.push((key, value));
        } else {
            self.record(format!("Multiple definitions for property '{key}'"));
        }
        Ok(())
    }

    fn property_text(&mut self) -> Parse<Box<str>> {
        if let Some(constant) = self.constant() {
            return Ok(constant.text);
        }
        let word = self.slice();
        let text = match self.peek().class() {
            Class::Free | Class::NoFunction => word.into(),
            Class::TypeName => word.to_ascii_lowercase().into(),
            Class::Reserved => return Err(Failure::Grammar),
        };
        self.advance();
        Ok(text)
    }

    /// `{key: value}` whose keys and values are literals.
    pub(super) fn property_map(&mut self) -> Parse<Vec<(Box<str>, Box<str>)>> {
        self.expect(Token::LeftBrace)?;
        if self.eat(Token::RightBrace) {
            return Ok(Vec::new());
        }
        let entries = self.comma_list(Self::map_entry)?;
        self.expect(Token::RightBrace)?;
        let mut map: Vec<(Box<str>, Box<str>)> = Vec::with_capacity(entries.len());
        let mut keys = HashSet::new();
        for (key, value) in entries {
            let (key, value) = match (key, value) {
                (Term::Constant(key), Term::Constant(value)) => (key.text, value.text),
                (Term::Constant(key), value) => {
                    let key = written(&key);
                    self.record(refusal(
                        &format!("Invalid property value: {value} for property: {key}"),
                        &value,
                    ));
                    break;
                }
                (key, _) => {
                    self.record(refusal(&format!("Invalid property name: {key}"), &key));
                    break;
                }
            };
            if !keys.insert(key.clone()) {
                self.record(format!("Multiple definition for property {key}"));
            }
            map.push((key, value));
        }
        Ok(map)
    }
}

/// A literal as messages show it: strings in quotes, nothing escaped.
fn written(constant: &Constant) -> String {
    match constant.kind {
        ConstantKind::String => format!("'{}'", constant.text),
        _ => constant.text.to_string(),
    }
}

fn refusal(message: &str, term: &Term) -> String {
    match term {
        Term::Marker(_) => format!("{message} (bind variables are not supported in DDL queries)"),
        _ => message.to_owned(),
    }
}
