//! Roles as a document: JSON with a version, as `{"version": 1, "roles": {...}, "permissions": {...},
//! "paging_secret": "..."}`. Documents of earlier versions have no secret.

use serde_json::{Map, Value, json};

use cql::ast::Permission;

use crate::model::{Role, Roles};

const VERSION: u64 = 1;

/// The document of roles.
pub fn encode(roles: &Roles) -> Vec<u8> {
    let described: Map<String, Value> = roles
        .roles
        .iter()
        .map(|(name, role)| {
            let described = json!({
                "is_superuser": role.is_superuser,
                "can_login": role.can_login,
                "salted_hash": role.salted_hash,
                "member_of": role.member_of.iter().collect::<Vec<_>>(),
            });
            (name.clone(), described)
        })
        .collect();
    let permissions: Map<String, Value> = roles
        .permissions
        .iter()
        .map(|(name, targets)| {
            let targets: Map<String, Value> = targets
                .iter()
                .map(|(path, held)| {
                    let names: Vec<&str> =
                        held.iter().map(|permission| permission.name()).collect();
                    (path.clone(), json!(names))
                })
                .collect();
            (name.clone(), Value::Object(targets))
        })
        .collect();
    let secret = roles.paging_secret.map(|secret| format!("{:032x}", u128::from_be_bytes(secret)));
    json!({
        "version": VERSION,
        "roles": described,
        "permissions": permissions,
        "paging_secret": secret,
    })
    .to_string()
    .into_bytes()
}

/// `None` for anything that [`encode`] did not write.
pub fn decode(bytes: &[u8]) -> Option<Roles> {
    let document: Value = serde_json::from_slice(bytes).ok()?;
    if document.get("version")?.as_u64()? != VERSION {
        return None;
    }
    let mut roles = Roles::default();
    for (name, described) in document.get("roles")?.as_object()? {
        let member_of = described.get("member_of")?.as_array()?;
        let role = Role {
            is_superuser: described.get("is_superuser")?.as_bool()?,
            can_login: described.get("can_login")?.as_bool()?,
            salted_hash: described.get("salted_hash")?.as_str().map(str::to_owned),
            member_of: member_of
                .iter()
                .map(|name| name.as_str().map(str::to_owned))
                .collect::<Option<_>>()?,
        };
        roles.roles.insert(name.clone(), role);
    }
    for (name, targets) in document.get("permissions")?.as_object()? {
        let kept = roles.permissions.entry(name.clone()).or_default();
        for (path, names) in targets.as_object()? {
            let held = names.as_array()?.iter().map(|name| permission(name.as_str()?));
            kept.insert(path.clone(), held.collect::<Option<_>>()?);
        }
    }
    if let Some(secret) = document.get("paging_secret").filter(|secret| !secret.is_null()) {
        let secret = u128::from_str_radix(secret.as_str()?, 16).ok()?;
        roles.paging_secret = Some(secret.to_be_bytes());
    }
    Some(roles)
}

fn permission(name: &str) -> Option<Permission> {
    Permission::ALL.into_iter().find(|permission| permission.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Target;

    #[test]
    fn what_is_kept_comes_back() {
        let mut roles = Roles::default();
        let role = Role {
            is_superuser: true,
            can_login: true,
            salted_hash: Some("$2a$10$x".to_owned()),
            member_of: ["other".to_owned()].into(),
        };
        roles.roles.insert("a \"name\"".to_owned(), role);
        roles.roles.insert("other".to_owned(), Role::default());
        roles.grant("other", &Permission::ALL, &Target::AllKeyspaces);
        assert_eq!(decode(&encode(&roles)), Some(roles.clone()));
        roles.paging_secret = Some([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(decode(&encode(&roles)), Some(roles));
        let before = br#"{"version": 1, "roles": {}, "permissions": {}}"#;
        assert_eq!(decode(before), Some(Roles::default()));
        assert_eq!(decode(b"{}"), None);
        assert_eq!(decode(b"not json"), None);
    }
}
