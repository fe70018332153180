//! The settings of the audit log.

use super::super::Category;
use super::super::form::{self, BadValue, Form};
use super::Setting;

const CATEGORIES: Form = Form::Names("AUTH, DCL, DDL, DML, ERROR, OTHER, PREPARE, QUERY");
/// A smaller file would be closed after every few lines.
const FILE_BYTES_MIN: u64 = 64 * 1024;

pub(super) static AUDIT: &[Setting] = &[
    setting!(
        "audit.enabled",
        Form::Flag,
        "false",
        "Whether it is written to a file who did what. Lines are those of Cassandra's FileAuditLogger.",
        audit.enabled = form::flag
    ),
    setting!(
        "audit.directory",
        Form::Path,
        "",
        "The folder of the files. Empty: audit in the data folder. The newest is audit.log.",
        audit.directory = form::optional_path
    ),
    setting!(
        "audit.included_categories",
        CATEGORIES,
        "AUTH,DCL,DDL,ERROR",
        "What is written. AUTH: logins, and what was not permitted; DCL: roles and permissions;\nDDL: definitions and TRUNCATE; ERROR: statements that failed; QUERY: reads; DML: writes;\nPREPARE: what is prepared; OTHER: USE and DESCRIBE. Empty: everything, as in Cassandra.",
        audit.categories.included = categories
    ),
    setting!(
        "audit.excluded_categories",
        CATEGORIES,
        "",
        "What is not. Who is on both lists, here and below, is not written.",
        audit.categories.excluded = categories
    ),
    setting!(
        "audit.included_keyspaces",
        Form::Names("keyspaces"),
        "",
        "Of statements about a keyspace, those about these. Empty: about all.",
        audit.keyspaces.included = names
    ),
    setting!(
        "audit.excluded_keyspaces",
        Form::Names("keyspaces"),
        "system,system_schema,system_virtual_schema",
        "Not those about these: drivers read them all the time.",
        audit.keyspaces.excluded = names
    ),
    setting!(
        "audit.included_users",
        Form::Names("roles"),
        "",
        "What these roles do. Empty: what all do. Without logins everybody is anonymous.",
        audit.users.included = names
    ),
    setting!(
        "audit.excluded_users",
        Form::Names("roles"),
        "",
        "Not what these do.",
        audit.users.excluded = names
    ),
    setting!(
        "audit.statement_values",
        Form::Flag,
        "false",
        "Whether literals are shown as they came. Passwords never are, and neither is what is bound to\nmarkers.",
        audit.statement_values = form::flag
    ),
    setting!(
        "audit.file_bytes",
        Form::Bytes,
        "64MiB",
        "A file that is larger is closed, and another one begun; at least 64KiB.",
        audit.file_bytes = |text| form::bytes(text).and_then(|bytes| if bytes >= FILE_BYTES_MIN {
            Ok(bytes)
        } else {
            Err(BadValue)
        })
    ),
    setting!(
        "audit.file_age",
        Form::Duration,
        "1d",
        "The same of a file that is older.",
        audit.file_age = |text| form::duration(text).and_then(|age| if age.is_zero() {
            Err(BadValue)
        } else {
            Ok(age)
        })
    ),
    setting!(
        "audit.kept_bytes",
        Form::Bytes,
        "1GiB",
        "Of all files together so much is kept; the oldest go first. At least twice audit.file_bytes.\n0: all are.",
        audit.kept_bytes = form::bytes
    ),
];

fn names(text: &str) -> Result<Vec<String>, BadValue> {
    Ok(text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

fn categories(text: &str) -> Result<Vec<Category>, BadValue> {
    let of_name = |name: String| {
        let mut all = Category::ALL.into_iter();
        all.find(|(_, known)| known.eq_ignore_ascii_case(&name)).map(|(category, _)| category)
    };
    names(text)?.into_iter().map(of_name).collect::<Option<Vec<_>>>().ok_or(BadValue)
}
