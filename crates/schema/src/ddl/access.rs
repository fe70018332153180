//! Which keyspaces nobody may define anything in, and which names a keyspace may have.

use crate::error::{SchemaError, invalid};
use crate::model::{KeyspaceKind, Schema};

/// The longest name of a keyspace or table.
pub(crate) const NAME_LENGTH_MAX: usize = 48;

const LOCAL: &[&str] = &["system", "system_schema"];
const REPLICATED: &[&str] = &["system_auth", "system_traces", "system_distributed"];
const COMPUTED: &[&str] = &["system_views", "system_virtual_schema", "system_helenus"];

/// What a definition wants to do, in the words of `GRANT`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wish {
    Create,
    Alter,
    Drop,
}

/// What it wants to do it to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resource<'a> {
    Keyspace(&'a str),
    AllTables(&'a str),
    Table(&'a str, &'a str),
}

impl Resource<'_> {
    fn keyspace(&self) -> &str {
        match self {
            Resource::Keyspace(keyspace)
            | Resource::AllTables(keyspace)
            | Resource::Table(keyspace, _) => keyspace,
        }
    }
}

/// Whether a keyspace is one that the system brings along.
pub fn is_system_keyspace(name: &str) -> bool {
    let name = name.to_lowercase();
    [LOCAL, REPLICATED, COMPUTED].iter().any(|names| names.contains(&name.as_str()))
}

/// A keyspace of the system that lives on each node by itself.
pub(crate) fn is_local_system_keyspace(name: &str) -> bool {
    let name = name.to_lowercase();
    LOCAL.contains(&name.as_str()) || COMPUTED.contains(&name.as_str())
}

/// A keyspace whose tables clients know to be virtual.
pub fn is_virtual_keyspace(name: &str) -> bool {
    COMPUTED.contains(&name)
}

/// Refuses changes to the system's own keyspaces, before anything else is looked at.
pub(crate) fn check_rights(wish: Wish, resource: Resource<'_>) -> Result<(), SchemaError> {
    let keyspace = resource.keyspace();
    if is_local_system_keyspace(keyspace) {
        return Err(SchemaError::Unauthorized(format!(
            "{keyspace} keyspace is not user-modifiable."
        )));
    }
    if !REPLICATED.contains(&keyspace.to_lowercase().as_str()) {
        return Ok(());
    }
    let wish = match (wish, resource) {
        (Wish::Alter, Resource::Keyspace(_)) => return Ok(()),
        (Wish::Create, _) => "CREATE",
        (Wish::Alter, _) => "ALTER",
        (Wish::Drop, _) => "DROP",
    };
    let resource = match resource {
        Resource::Keyspace(keyspace) => format!("<keyspace {keyspace}>"),
        Resource::AllTables(keyspace) => format!("<all tables in {keyspace}>"),
        Resource::Table(keyspace, table) => format!("<table {keyspace}.{table}>"),
    };
    Err(SchemaError::Unauthorized(format!("Cannot {wish} {resource}")))
}

/// What every definition checks about its keyspace when it is executed.
pub(crate) fn check_keyspace(schema: &Schema, name: &str) -> Result<(), SchemaError> {
    if is_local_system_keyspace(name) {
        return Err(invalid!("System keyspace '{name}' is not user-modifiable"));
    }
    if schema.keyspace(name).is_some_and(|keyspace| keyspace.kind == KeyspaceKind::Virtual) {
        return Err(invalid!("Virtual keyspace '{name}' is not user-modifiable"));
    }
    if !is_valid_name(name) {
        return Err(invalid!(
            "Keyspace name must not be empty, more than {NAME_LENGTH_MAX} characters long, or \
             contain non-alphanumeric-underscore characters (got '{name}')"
        ));
    }
    Ok(())
}

/// Letters, digits and underscores, and not too many.
pub(crate) fn is_valid_name(name: &str) -> bool {
    name.len() <= NAME_LENGTH_MAX && is_word(name)
}

/// Letters, digits and underscores, at least one.
pub(crate) fn is_word(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
