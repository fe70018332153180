//! The arrows between the rooms, read from the manifests.

use std::collections::BTreeSet;

use toml_edit::{DocumentMut, Item, TableLike};

use crate::{assert_none, root};

/// The table of ARCHITECTURE.md: a crate, and the crates it may use. Every crate may use `types`.
const MAY_USE: [(&str, &[&str]); 19] = [
    ("types", &[]),
    ("protocol", &[]),
    ("cql", &[]),
    ("schema", &["cql"]),
    ("roles", &["cql", "schema"]),
    ("units", &[]),
    ("partition", &["units"]),
    ("plan", &["cql", "schema"]),
    ("node-log", &[]),
    ("tree", &[]),
    ("storage", &["schema", "node-log", "tree"]),
    ("replica", &["storage", "units", "partition", "schema"]),
    ("simulator", &["schema", "node-log", "tree", "storage", "replica"]),
    ("model", &[]),
    ("coordinator", &["plan", "partition", "replica", "units"]),
    ("cluster", &["partition", "replica"]),
    ("shell", &["protocol", "cql"]),
    ("dashboard", &[]),
    (
        "server",
        &[
            "protocol",
            "cql",
            "schema",
            "roles",
            "units",
            "partition",
            "plan",
            "storage",
            "replica",
            "coordinator",
            "cluster",
            "shell",
            "dashboard",
        ],
    ),
];

/// Arrows beside the table, each with its reason. None points down.
const BESIDE_THE_TABLE: [(&str, &str, &str); 4] = [
    (
        "simulator",
        "testkit",
        "it is a harness itself, and judges histories with the other one's checker",
    ),
    ("coordinator", "cql", "it runs definition statements, and those reach it parsed"),
    ("coordinator", "schema", "it applies a definition to the schema that all plans are made with"),
    ("testkit", "protocol", "the test client speaks the protocol of the crate under test"),
];

/// Arrows that tests need and nothing else may follow.
const IN_TESTS: [(&str, &str, &str); 1] = [(
    "coordinator",
    "storage",
    "its tests run over storage as it is, behind the sets that it sees",
)];

/// Crates that are no rooms: chores and the test harness. Rooms may use them in tests only.
const NO_ROOMS: [&str; 2] = ["testkit", "xtask"];

#[test]
fn arrows_point_up_the_table_only() {
    let members = members();
    let names: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let mut complaints = Vec::new();
    for member in &members {
        for (section, name) in &member.dependencies {
            if !names.contains(name.as_str()) {
                continue;
            }
            let in_tests = section == "dev-dependencies";
            let is_for_tests =
                |(from, to, _): &(&str, &str, &str)| *from == member.name && to == name;
            let is_needed = name == "testkit" || IN_TESTS.iter().any(is_for_tests);
            if !(is_allowed(&member.name, name) || in_tests && is_needed) {
                complaints.push(format!("{} -> {name} ([{section}])", member.name));
            }
        }
    }
    assert_none("an arrow that the table of the rooms does not have", complaints);
}

#[test]
fn every_crate_has_a_row_in_the_table() {
    let unknown: Vec<String> = members()
        .into_iter()
        .map(|member| member.name)
        .filter(|name| {
            !NO_ROOMS.contains(&name.as_str()) && !MAY_USE.iter().any(|(room, _)| room == name)
        })
        .collect();
    assert_none("a crate that the table of the rooms does not know", unknown);
}

#[test]
fn the_table_has_no_cycle() {
    for (index, (room, uses)) in MAY_USE.iter().enumerate() {
        for used in *uses {
            let position = MAY_USE.iter().position(|(name, _)| name == used);
            assert!(
                position.is_some_and(|position| position < index),
                "{room} -> {used} points down"
            );
        }
    }
}

#[test]
fn versions_and_lints_come_from_the_workspace() {
    let workspace: DocumentMut =
        std::fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let shared = &workspace["workspace"]["dependencies"];
    let mut complaints = Vec::new();
    for member in members() {
        if !member.has_workspace_lints {
            complaints.push(format!("{}: no `[lints] workspace = true`", member.name));
        }
        for (name, version) in &member.own_versions {
            // Fewer features than the others may be wanted, another version may not.
            let same = shared.get(name).and_then(|item| item.get("version")).and_then(Item::as_str);
            if same.is_none() || same != version.as_deref() {
                complaints.push(format!("{}: {name} should be `workspace = true`", member.name));
            }
        }
    }
    assert_none("a manifest that goes its own way", complaints);
}

fn is_allowed(from: &str, to: &str) -> bool {
    to == "types"
        || MAY_USE.iter().any(|(room, uses)| *room == from && uses.contains(&to))
        || BESIDE_THE_TABLE.iter().any(|(room, used, _)| (*room, *used) == (from, to))
}

/// What a crate's manifest says.
struct Member {
    name: String,
    /// Section and name of each dependency.
    dependencies: Vec<(String, String)>,
    /// Dependencies that the workspace does not rule, with their version.
    own_versions: Vec<(String, Option<String>)>,
    has_workspace_lints: bool,
}

fn members() -> Vec<Member> {
    let mut manifests = vec![root().join("xtask/Cargo.toml")];
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let manifest = entry.unwrap().path().join("Cargo.toml");
        if manifest.exists() {
            manifests.push(manifest);
        }
    }
    manifests.iter().map(|path| read(&std::fs::read_to_string(path).unwrap())).collect()
}

fn read(manifest: &str) -> Member {
    let document: DocumentMut = manifest.parse().unwrap();
    let is_from_workspace =
        |item: &Item| item.get("workspace").and_then(Item::as_bool) == Some(true);
    let mut member = Member {
        name: document["package"]["name"].as_str().unwrap().to_string(),
        dependencies: Vec::new(),
        own_versions: Vec::new(),
        has_workspace_lints: document.get("lints").is_some_and(is_from_workspace),
    };
    // Also the sections below `[target.'cfg(...)']`.
    let targets =
        document.get("target").and_then(Item::as_table_like).into_iter().flat_map(TableLike::iter);
    let tables = targets
        .filter_map(|(_, item)| item.as_table_like())
        .chain([document.as_table() as &dyn TableLike]);
    for table in tables {
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let Some(dependencies) = table.get(section).and_then(Item::as_table_like) else {
                continue;
            };
            for (name, item) in dependencies.iter() {
                member.dependencies.push((section.to_string(), name.to_string()));
                if !is_from_workspace(item) {
                    let version = item.get("version").or(Some(item)).and_then(Item::as_str);
                    member.own_versions.push((name.to_string(), version.map(String::from)));
                }
            }
        }
    }
    member
}

#[test]
fn a_manifest_is_read_in_all_its_sections() {
    let member = read(
        "[package]\nname = \"a\"\n[dependencies]\nb = { workspace = true }\n[dev-dependencies]\nc = \"1\"\n\
         [target.'cfg(unix)'.dependencies]\nd.workspace = true\n[lints]\nworkspace = true\n",
    );
    let mut names: Vec<&str> = member.dependencies.iter().map(|(_, name)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["b", "c", "d"]);
    assert_eq!(member.own_versions, [("c".to_string(), Some("1".to_string()))]);
    assert!(member.has_workspace_lints);
}
