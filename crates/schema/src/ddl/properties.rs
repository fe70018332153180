//! The values behind `WITH name = value`, read as Cassandra reads them.

use cql::ast::{Properties, PropertyValue};

use crate::error::{SchemaError, syntax};
use crate::java;

/// Reads properties by name, each as one type.
pub(crate) struct PropertyReader<'a>(pub(crate) &'a Properties);

impl<'a> PropertyReader<'a> {
    /// Refuses names that are not among `known`; of several the one that Java's map gives first.
    pub(crate) fn check_names(&self, known: &[&str]) -> Result<(), SchemaError> {
        let names = self.0.0.iter().map(|(name, _)| name.as_str());
        match java::hash_map_order(names).into_iter().find(|name| !known.contains(name)) {
            Some(unknown) => Err(syntax!("Unknown property '{unknown}'")),
            None => Ok(()),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some()
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, SchemaError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(PropertyValue::Text(text)) => Ok(Some(text)),
            Some(PropertyValue::Map(_)) => {
                Err(syntax!("Invalid value for property '{name}'. It should be a string"))
            }
        }
    }

    pub(crate) fn map(&self, name: &str) -> Result<Option<OptionMap>, SchemaError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(PropertyValue::Map(entries)) => Ok(Some(OptionMap(
                entries.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            ))),
            Some(PropertyValue::Text(_)) => {
                Err(syntax!("Invalid value for property '{name}'. It should be a map."))
            }
        }
    }

    pub(crate) fn boolean(&self, name: &str) -> Result<Option<bool>, SchemaError> {
        let Some(value) = self.text(name)? else { return Ok(None) };
        match value.to_lowercase().as_str() {
            "1" | "true" | "yes" => Ok(Some(true)),
            "0" | "false" | "no" => Ok(Some(false)),
            _ => Err(syntax!(
                "Invalid boolean value {value} for '{name}'. Positive values can be '1', 'true' \
                 or 'yes'. Negative values can be '0', 'false' or 'no'."
            )),
        }
    }

    pub(crate) fn int(&self, name: &str) -> Result<Option<i32>, SchemaError> {
        let Some(value) = self.text(name)? else { return Ok(None) };
        match java::parse_int(value) {
            Some(number) => Ok(Some(number)),
            None => Err(syntax!("Invalid integer value {value} for '{name}'")),
        }
    }

    pub(crate) fn double(&self, name: &str) -> Result<Option<f64>, SchemaError> {
        let Some(value) = self.text(name)? else { return Ok(None) };
        match java::parse_double(value) {
            Some(number) => Ok(Some(number)),
            None => Err(syntax!("Invalid double value {value} for '{name}'")),
        }
    }
}

/// A map of options, from which each is taken as it is understood.
#[derive(Clone, Debug, Default)]
pub(crate) struct OptionMap(pub(crate) Vec<(String, String)>);

impl OptionMap {
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub(crate) fn take(&mut self, key: &str) -> Option<String> {
        let index = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(index).1)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}
