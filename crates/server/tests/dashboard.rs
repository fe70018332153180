//! The dashboard of a real node: its pages, its headers, who may see them, and that names stay names.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test drives a real process and may stop at the first surprise"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use protocol::Response;
use testkit::{Client, Execution, Node, OwnedValue, free_port_on};

const BINARY: &str = env!("CARGO_BIN_EXE_helenus");
const PAGES: [&str; 6] = ["/", "/partitions", "/nodes", "/tables", "/statements", "/jobs"];
const LOGIN: [&str; 4] =
    ["--set", "auth.authenticator=password", "--set", "auth.authorizer=cassandra"];

struct Answer {
    status: String,
    head: String,
    body: String,
}

impl Answer {
    /// The cookie that was set.
    fn cookie(&self) -> Option<&str> {
        let line = self.head.lines().find_map(|line| line.strip_prefix("Set-Cookie: "))?;
        line.split(';').next()
    }
}

fn send(address: &str, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{request}"));
    let status = head.lines().next().unwrap().to_owned();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

fn get(address: &str, path: &str, cookie: &str) -> Answer {
    send(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n\r\n"))
}

fn post(address: &str, path: &str, cookie: &str, body: &str) -> Answer {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\n");
    send(address, &format!("{head}Cookie: {cookie}\r\nContent-Length: {length}\r\n\r\n{body}"))
}

fn new_node(more: &[&str]) -> (Node, String) {
    let address = format!("127.0.0.1:{}", free_port_on(1).unwrap());
    let setting = format!("metrics.listen={address}");
    let mut arguments = vec!["--set", &setting, "--set", "log.costly_ru=1"];
    arguments.extend(more);
    let node = Node::start(Path::new(BINARY), &arguments).unwrap();
    let said = node.output().unwrap();
    assert!(said.contains(&format!("dashboard: http://{address}/\n")), "{said}");
    (node, address)
}

fn ask(client: &mut Client, text: &str) {
    if let Response::Error(error) = client.query(text, &Execution::default()).unwrap().response {
        panic!("{text}: {}", error.message);
    }
}

/// A keyspace with hostile names in it, and some work.
fn work(client: &mut Client) {
    for statement in [
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE shop.orders (id text PRIMARY KEY, note text)",
        "CREATE TABLE shop.\"a_1\" (\"<script>alert(1)</script>\" int PRIMARY KEY, v int)",
        "CREATE TYPE shop.\"<img src=x>\" (f int)",
    ] {
        ask(client, statement);
    }
    for id in 0..20 {
        ask(client, &format!("INSERT INTO shop.orders (id, note) VALUES ('<i>{id}</i>', 'n')"));
    }
    let name = "\"<script>alert(1)</script>\"";
    let text = format!("SELECT {name} FROM shop.a_1 WHERE {name} = ?");
    let prepared = client.prepare(&text).unwrap().unwrap();
    let values = vec![OwnedValue::Bytes(7_i32.to_be_bytes().to_vec())];
    for _ in 0..5 {
        client
            .execute(&prepared, &Execution { values: values.clone(), ..Execution::default() })
            .unwrap();
    }
}

fn check_page(address: &str, path: &str, cookie: &str) -> String {
    let answer = get(address, path, cookie);
    assert_eq!(answer.status, "HTTP/1.1 200 OK", "{path}: {}", answer.body);
    for header in [
        "Content-Type: text/html; charset=utf-8",
        "X-Content-Type-Options: nosniff",
        "X-Frame-Options: DENY",
        "Cache-Control: no-store",
        "Referrer-Policy: same-origin",
        "frame-ancestors 'none'",
        "default-src 'none'; script-src 'self'; style-src 'self';",
    ] {
        assert!(answer.head.contains(header), "{path}: {header}\n{}", answer.head);
    }
    assert!(answer.body.len() < 100 * 1024, "{path} has {} bytes", answer.body.len());
    assert_eq!(answer.body.matches("<script").count(), 2, "{path}: {}", answer.body);
    for word in ["<img", "<i>", " style=", "http://"] {
        assert!(!answer.body.contains(word), "{path} has {word}: {}", answer.body);
    }
    answer.body
}

#[test]
fn every_page_shows_what_the_node_knows_and_names_stay_names() {
    let (node, address) = new_node(&[]);
    let mut client = Client::connect(&node.address()).unwrap();
    work(&mut client);
    // A sample is taken every ten seconds.
    let begun = Instant::now();
    let keys_path = "/partitions?space=shop&range=24h";
    let is_sampled = || {
        get(&address, "/partitions", "").body.contains(">shop<")
            && get(&address, keys_path, "").body.contains("&lt;i&gt;")
    };
    while !is_sampled() {
        assert!(begun.elapsed() < Duration::from_secs(90), "no sample");
        // Keys are hot as long as somebody writes them.
        for id in 0..20 {
            let key = format!("<i>{id}</i>");
            let text = format!("INSERT INTO shop.orders (id, note) VALUES ('{key}', 'n')");
            ask(&mut client, &text);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    for path in PAGES {
        check_page(&address, path, "");
    }
    let tables = check_page(&address, "/tables?find=ORD&sort=name", "");
    assert!(tables.contains("shop.orders") && tables.contains("1 of 2 tables"), "{tables}");
    let statements = check_page(&address, "/statements", "");
    assert!(statements.contains("&lt;script&gt;alert(1)"), "{statements}");
    let keys = check_page(&address, keys_path, "");
    assert!(keys.contains("&lt;i&gt;"), "hot keys are shown by name: {keys}");
    for asset in ["href=\"/assets/", "src=\"/assets/"] {
        let path = statements.split(asset).nth(1).unwrap().split('"').next().unwrap();
        let answer = get(&address, &format!("/assets/{path}"), "");
        assert_eq!(answer.status, "HTTP/1.1 200 OK");
        assert!(answer.head.contains("immutable"), "{}", answer.head);
    }
    let series = get(&address, "/series.json", "");
    assert!(series.body.starts_with("{\"t\":["), "{}", series.body);
    assert!(series.head.contains("application/json"), "{}", series.head);
    let explain = statements.split("href=\"/explain?id=").nth(1).unwrap();
    let explain = format!("/explain?id={}", explain.split('"').next().unwrap());
    assert!(check_page(&address, &explain, "").contains("name=\"v0\""));
    let told = post(&address, &explain, "", "v0=7");
    assert!(told.body.contains("shop.a_1") && told.body.contains(">RU</th>"), "{}", told.body);
    let told = post(&address, &explain, "", "v0=x");
    assert!(told.body.contains("role=\"alert\">value 1: "), "{}", told.body);
}

#[test]
fn a_slow_statement_is_one_click_away_from_its_explanation() {
    let (node, address) = new_node(&[]);
    let mut client = Client::connect(&node.address()).unwrap();
    work(&mut client);
    ask(&mut client, "SELECT * FROM shop.orders WHERE id = 'a secret'");
    let statements = check_page(&address, "/statements", "");
    assert!(!statements.contains("a secret"), "{statements}");
    let row = statements.split("<tr>").find(|row| row.contains("WHERE id = ?")).unwrap();
    let explain = row.split("href=\"/explain?slow=").nth(1).unwrap();
    let explain = format!("/explain?slow={}", explain.split('"').next().unwrap());
    assert!(check_page(&address, &explain, "").contains("name=\"v0\""), "it asks for the value");
    let told = post(&address, &explain, "", "v0=7");
    assert!(told.body.contains("shop.orders") && told.body.contains(">RU</th>"), "{}", told.body);
    let gone = get(&address, "/explain?slow=999999", "");
    assert!(gone.status.starts_with("HTTP/1.1 404"), "{}", gone.status);
    assert!(gone.body.contains("does not know this statement any more"), "{}", gone.body);
}

#[test]
fn what_is_not_there_or_comes_from_elsewhere_is_refused() {
    let (_node, address) = new_node(&[]);
    for (request, status) in [
        (format!("GET /else HTTP/1.1\r\nHost: {address}\r\n\r\n"), "404"),
        (format!("GET /assets/x HTTP/1.1\r\nHost: {address}\r\n\r\n"), "404"),
        (format!("GET /explain?id=zz HTTP/1.1\r\nHost: {address}\r\n\r\n"), "404"),
        (format!("GET /live?of=/else HTTP/1.1\r\nHost: {address}\r\n\r\n"), "404"),
        (format!("POST / HTTP/1.1\r\nHost: {address}\r\n\r\n"), "404"),
        (format!("DELETE / HTTP/1.1\r\nHost: {address}\r\n\r\n"), "405"),
        // A name of another site that points here, and a form of another site.
        ("GET / HTTP/1.1\r\nHost: evil.example:9180\r\n\r\n".to_owned(), "421"),
        (
            format!(
                "POST /login HTTP/1.1\r\nHost: {address}\r\nOrigin: http://evil.example\r\n\r\n"
            ),
            "403",
        ),
    ] {
        let answer = send(&address, &request);
        assert!(
            answer.status.starts_with(&format!("HTTP/1.1 {status}")),
            "{request}{}",
            answer.status
        );
    }
}

#[test]
fn news_come_by_themselves() {
    let (_node, address) = new_node(&[]);
    let mut stream = TcpStream::connect(&address).unwrap();
    let request = format!("GET /live?of=%2Fnodes HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "HTTP/1.1 200 OK");
    assert!(lines.any(|line| line == "event: page"));
    let data = lines.next().unwrap();
    assert!(data.starts_with("data: ") && data.contains("id=\"nodes\""), "{data}");
}

#[test]
fn whoever_must_log_in_as_a_client_must_log_in_here() {
    let settings = [&LOGIN[..], &["--set", "limits.sessions_per_role=1"]].concat();
    let (node, address) = new_node(&settings);
    for path in PAGES.into_iter().chain(["/series.json", "/live?of=/", "/explain?id=1"]) {
        let answer = get(&address, path, "helenus_session=guessed");
        assert_eq!(answer.status, "HTTP/1.1 401 Unauthorized", "{path}");
        assert!(answer.body.contains("name=\"password\""), "{path}");
    }
    // Prometheus, supervisors and balancers ask as before.
    assert_eq!(get(&address, "/health", "").status, "HTTP/1.1 200 OK");
    let wrong = post(&address, "/login", "", "name=cassandra&password=%3Cscript%3E");
    assert_eq!(wrong.status, "HTTP/1.1 401 Unauthorized");
    assert!(wrong.cookie().is_none() && !wrong.body.contains("<script"), "{}", wrong.body);
    let right = post(&address, "/login", "", "name=cassandra&password=cassandra");
    assert_eq!(right.status, "HTTP/1.1 303 See Other");
    assert!(right.head.contains("HttpOnly; SameSite=Strict"), "{}", right.head);
    let root = right.cookie().unwrap().to_owned();
    for path in PAGES {
        check_page(&address, path, &root);
    }
    // A role sees what it may read.
    let mut client = Client::connect_as(&node.address(), "cassandra", "cassandra").unwrap();
    ask(&mut client, "CREATE ROLE ann WITH PASSWORD = 'a' AND LOGIN = true");
    ask(&mut client, "GRANT SELECT ON system_helenus.status TO ann");
    let ann = post(&address, "/login", "", "name=ann&password=a").cookie().unwrap().to_owned();
    check_page(&address, "/", &ann);
    let statements = get(&address, "/statements", &ann);
    assert_eq!(statements.status, "HTTP/1.1 403 Forbidden", "{}", statements.body);
    // Who may see nothing is told what would help, and can leave.
    for words in ["GRANT SELECT ON KEYSPACE system_helenus", "action=\"/logout\""] {
        assert!(statements.body.contains(words), "{}", statements.body);
    }
    // One whose password was changed is out, and so is one that may not log in any more.
    ask(&mut client, "ALTER ROLE ann WITH PASSWORD = 'b'");
    assert_eq!(get(&address, "/", &ann).status, "HTTP/1.1 401 Unauthorized");
    let ann = post(&address, "/login", "", "name=ann&password=b").cookie().unwrap().to_owned();
    check_page(&address, "/", &ann);
    ask(&mut client, "ALTER ROLE ann WITH LOGIN = false");
    assert_eq!(get(&address, "/", &ann).status, "HTTP/1.1 401 Unauthorized");
    // What was prepared is shown without the password, and to look takes no session of the role.
    ask(&mut client, "CREATE ROLE joe WITH PASSWORD = 'j' AND LOGIN = true");
    ask(&mut client, "GRANT SELECT ON KEYSPACE system_helenus TO joe");
    let text = "ALTER ROLE joe WITH PASSWORD = 'topsecret'";
    let prepared = client.prepare(text).unwrap().unwrap();
    client.execute(&prepared, &Execution::default()).unwrap();
    let _only = Client::connect_as(&node.address(), "joe", "topsecret").unwrap();
    let joe = post(&address, "/login", "", "name=joe&password=topsecret");
    let joe = joe.cookie().unwrap().to_owned();
    let statements = check_page(&address, "/statements", &joe);
    assert!(statements.contains("ALTER ROLE joe WITH PASSWORD"), "{statements}");
    assert!(!statements.contains("topsecret"), "{statements}");
    let out = post(&address, "/logout", &root, "");
    assert_eq!(out.status, "HTTP/1.1 303 See Other");
    assert_eq!(get(&address, "/", &root).status, "HTTP/1.1 401 Unauthorized");
}

#[test]
fn the_dashboard_can_be_turned_off_without_the_metrics() {
    let address = format!("127.0.0.1:{}", free_port_on(1).unwrap());
    let setting = format!("metrics.listen={address}");
    let words = ["--set", &setting, "--set", "metrics.dashboard=false"];
    let node = Node::start(Path::new(BINARY), &words).unwrap();
    assert!(!node.output().unwrap().contains("dashboard"));
    assert_eq!(get(&address, "/health", "").status, "HTTP/1.1 200 OK");
    for path in PAGES {
        assert_eq!(get(&address, path, "").status, "HTTP/1.1 404 Not Found", "{path}");
    }
}
