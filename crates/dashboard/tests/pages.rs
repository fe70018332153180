//! Every page with hostile names, and as large as it gets: 10,000 physical partitions, 1,000 tables, 16 nodes.

use dashboard::heat::Heat;
use dashboard::heat_map::Mark;
use dashboard::history::{History, SAMPLES_MAX, Sample, Series};
use dashboard::jobs::{Build, Change, Event, Job, Jobs, Line};
use dashboard::layout::{Frame, Page};
use dashboard::nodes::{Node, Nodes};
use dashboard::overview::Overview;
use dashboard::partitions::{Key, Partitions, Physical, Space};
use dashboard::statements::{Explained, Outcome, Slow, Statement, Statements, Step};
use dashboard::tables::{Sort, Table, Tables, Throughput};
use dashboard::{Markup, PAGE_BYTES_MAX, login};

/// As long as names may be, and as hostile as they come.
fn hostile() -> String {
    let attack = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>&lt;`${1}`]]>--!>";
    attack.repeat(40)
}

fn frame() -> Frame {
    Frame {
        cluster: "<script>cluster".to_owned(),
        node: "node 1 (127.0.0.1:9042)".to_owned(),
        version: "0.2.0".to_owned(),
        role: Some("<script>role".to_owned()),
        now_ms: 1_778_070_600_000,
    }
}

fn check(page: Page, body: &Markup) {
    let text = frame().page(page, body).into_string();
    assert!(text.len() <= PAGE_BYTES_MAX, "{page:?} has {} bytes", text.len());
    // The only scripts are the two files of ours.
    assert_eq!(text.matches("<script").count(), 2, "{page:?}");
    assert!(!text.contains("<img"), "{page:?}");
    for word in [" style=", " onerror=\"", " onclick=", "javascript:"] {
        assert!(!text.contains(word), "{page:?}: {word}");
    }
    // No name ends the attribute that it stands in: quotes of data are escaped everywhere.
    assert!(!text.contains("\"'>"), "{page:?}");
}

#[test]
fn the_overview() {
    let mut history = History::default();
    let mut state = 1_u64;
    for number in 0..SAMPLES_MAX as u32 {
        let mut sample = Sample::at(1_000_000 + number * 10);
        for (series, _) in Series::ALL {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            sample.set(series, (state >> 40) as f64);
        }
        history.push(sample);
    }
    let overview = Overview {
        problems: vec!["<script>problem".to_owned(); 1000],
        nodes: 16,
        nodes_alive: 15,
        sets: 10_000,
        sets_without_leader: 3,
        sets_short: 500,
        budget_ru_s: Some(1e7),
        errors: vec![("invalid", u64::MAX); 18],
        between: (1_000_000, 1_000_000 + 86_400),
        range: "24h",
        ..Overview::default()
    };
    check(Page::Overview, &overview.markup(&history));
    check(Page::Overview, &Overview::default().markup(&History::default()));
}

#[test]
fn partitions() {
    let mut heat = Heat::default();
    let mut state = 7_u64;
    for slot in 0..180_u32 {
        heat.sample(
            1_000_000 + slot * 10,
            (0..10_000_u32).step_by(5).map(|id| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (id, (state >> 56) as f64)
            }),
        );
    }
    let physical = |id: u32| Physical {
        id,
        start: f64::from(id) / 10_000.0,
        share: 0.0001,
        bytes: u64::MAX,
        rows: u64::MAX,
        ru_s: f64::from(id),
        budget_ru_s: Some(1000.0),
        leader: Some(3),
        members: vec![1, 2, 3, 4],
        reason: "split".to_owned(),
    };
    let key = || Key { table: hostile(), key: hostile(), bytes: Some(9), ..Key::default() };
    let page = Partitions {
        spaces: (0..1000)
            .map(|_| Space { name: "<script>".repeat(12), ..Space::default() })
            .collect(),
        spaces_total: 1000,
        space: "<script>\"'>".repeat(4),
        physical: (0..10_000).map(physical).collect(),
        marks: (0..1000)
            .map(|number| Mark { at_ms: (1_000_000 + number) * 1000, what: "<script>".to_owned() })
            .collect(),
        hot: (0..64).map(|_| key()).collect(),
        giant: (0..64).map(|_| key()).collect(),
        shows_day: false,
    };
    check(Page::Partitions, &page.markup(&heat));
    check(Page::Partitions, &Partitions { shows_day: true, ..page }.markup(&heat));
    check(Page::Partitions, &Partitions::default().markup(&Heat::default()));
}

#[test]
fn nodes() {
    let node = |number: u64| Node {
        number,
        is_asked: number == 1,
        state: hostile(),
        is_alive: number != 5,
        address: "127.0.0.1:9042".to_owned(),
        rack: hostile(),
        disk_bytes: Some(u64::MAX),
        free_bytes: Some(1),
        memory_bytes: Some(1 << 40),
        sync_p99_ms: Some(1.5),
        clock_ms: Some(-700.0),
        links: (1..17).map(|to| (to, (to != 3).then_some(0.25))).collect(),
        frozen: vec![hostile(); 100],
        ..Node::default()
    };
    let page = Nodes { nodes: (1..=16).map(node).collect(), waiting: Some(hostile()) };
    check(Page::Nodes, &page.markup());
    check(Page::Nodes, &Nodes::default().markup());
}

#[test]
fn a_thousand_tables_are_pages() {
    let table = |number: usize| Table {
        keyspace: format!("ks{}", number % 10),
        name: format!("<script>{}{number:04}", "x".repeat(30)),
        bytes: number as u64,
        rows: u64::MAX,
        read_p99_ms: Some(3.0),
        throughput: Some(Throughput {
            is_shared: true,
            mode: "autoscale",
            maximum_ru_s: 4000.0,
            used_ru_s: number as f64,
            throttled: u64::MAX,
            cost_hour: Some(0.1234),
        }),
        ..Table::default()
    };
    let tables: Vec<Table> = (0..1000).map(table).collect();
    for (sort, page) in [("size", 0), ("name", 19), ("used", usize::MAX), ("<script>", 3)] {
        let sort = Sort::named(sort);
        let shown = Tables { tables: tables.clone(), find: String::new(), sort, page };
        check(Page::Tables, &shown.markup());
    }
    let found = Tables {
        tables,
        find: "SCRIPT>xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx0042".to_owned(),
        ..Tables::default()
    };
    let text = found.markup().into_string();
    assert!(text.contains("1 of 1000 tables"), "{text}");
    check(Page::Tables, &Tables { find: hostile(), ..Tables::default() }.markup());
}

#[test]
fn statements_and_explanations() {
    let statement = |number: u32| Statement {
        id: format!("{number:032x}"),
        text: hostile(),
        calls: u64::MAX,
        charge_total: 1e12,
        ..Statement::default()
    };
    let slow = Slow {
        number: Some(i64::MAX),
        text: hostile(),
        role: Some(hostile()),
        client: "10.0.0.1".to_owned(),
        ..Slow::default()
    };
    let page = Statements {
        costliest: (0..500).map(statement).collect(),
        throttled: (0..500).map(statement).collect(),
        slowest: vec![slow; 256],
        prepared: 500,
    };
    check(Page::Statements, &page.markup());
    let step = Step { what: hostile(), partitions: hostile(), ..Step::default() };
    for outcome in [Outcome::Asks, Outcome::Refused(hostile()), Outcome::Steps(vec![step; 500])] {
        let page = Explained {
            address: dashboard::statements::address_of("1f"),
            text: hostile(),
            variables: vec![(hostile(), hostile()); 100],
            values: vec!["<script>\"'>".to_owned(); 100],
            outcome,
        };
        check(Page::Statements, &page.markup());
    }
}

#[test]
fn jobs_and_events() {
    let page = Jobs {
        jobs: vec![
            Job {
                state: "running".to_owned(),
                total: 9,
                what: hostile(),
                reason: hostile(),
                progress: hostile(),
                ..Job::default()
            };
            500
        ],
        events: vec![Event { what: hostile(), reason: hostile(), ..Event::default() }; 500],
        changes: vec![
            Change { space: hostile(), what: "split".to_owned(), ..Change::default() };
            500
        ],
        builds: vec![Build { index: hostile(), ..Build::default() }; 500],
        lines: vec![Line { level: "ERROR", text: hostile(), at_ms: 0 }; 500],
        is_alone: false,
    };
    check(Page::Jobs, &page.markup());
    check(Page::Jobs, &Jobs::default().markup());
}

#[test]
fn a_login_has_no_script_at_all() {
    for page in [login::markup(Some(&hostile())), login::refusal("No", &hostile())] {
        let text = page.into_string();
        assert!(!text.contains("<script") && !text.contains("<img"), "{text}");
    }
}
