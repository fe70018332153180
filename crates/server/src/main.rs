//! The binary `helenus`: the door of the house. It listens, keeps sessions, encrypts, reads the
//! configuration, counts, and wires the rooms together. It has no rules of its own: what a statement
//! means is decided in `plan` and `coordinator`.
//!
//! Reading order: [`cli`] and [`config`] (what the user asks for), [`start`] and [`node`] (the
//! wiring), [`world`] (the real clock and machine), [`door`], [`connection`] and [`session`] (one
//! client), [`statements`] (what it asks for) with [`reply`] (the only place that knows error codes),
//! [`roles`], [`kept_time`], [`facts`] and [`clients`] (what the system tables show), [`events`], [`tls`],
//! [`cluster_node`] with [`membership`] (a node that is not alone), [`demo`], [`sets`], [`metrics`], [`admin`], [`upkeep`], [`transfer`] and [`cql_shell`] with [`progress`] and [`log`].
mod admin;
mod audit;
mod auth;
mod cli;
mod clients;
mod cluster_gauges;
mod cluster_node;
mod config;
mod connection;
mod cql_shell;
mod dashboard;
mod demo;
mod door;
mod estimate;
mod events;
mod facts;
mod gather;
mod greeting;
mod handbook;
mod jobs;
mod kept_time;
mod load;
mod log;
mod membership;
mod metrics;
mod node;
mod node_gauges;
mod nodes;
mod partitions;
mod password;
mod progress;
mod recover;
mod reply;
mod session;
mod sets;
mod skip;
mod spans;
mod start;
mod statements;
mod status;
mod stop;
mod tls;
mod transfer;
mod upkeep;
mod version;
mod views;
mod world;

use std::fmt::Display;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use admin::Question;
use cli::Order;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let (order, loaded) = match cli::parse() {
        Ok(parsed) => parsed,
        Err(error) => return fail(&error),
    };
    let data_dir = &loaded.config.server.data_dir;
    // What is exported is the user's own; everything else is nobody else's to read.
    if !matches!(order, Order::Transfer(_) | Order::Cql(_) | Order::Print(_) | Order::Man(_)) {
        world::keep_files_private();
    }
    match order {
        Order::Start(join) => {
            log::install(&loaded.config.log);
            match start::run(&loaded, join.as_ref()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => fail(&error),
            }
        }
        Order::Demo(demo) => match demo::run(&loaded, &demo) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error),
        },
        Order::DemoAdd(demo) => match demo::add(&loaded, &demo) {
            Ok(line) => say(&line),
            Err(error) => fail(&error),
        },
        Order::Token { json } => sets::show_token(data_dir, json),
        Order::Node { order, manner } => jobs::order(data_dir, &Question::Order(order), manner),
        Order::Remove { node, manner } => jobs::order(data_dir, &Question::Remove(node), manner),
        Order::Recover { lost, is_unsafe, json } => {
            recover::run(data_dir, &Question::Recover { lost, is_unsafe }, json)
        }
        Order::Skip { asked, json } => skip::run(data_dir, asked, json),
        Order::Config => say(&config::print(&loaded)),
        Order::Print(text) => say(&text),
        Order::Status { json, node } => {
            let answer = match node.is_named() {
                true => node.status(&loaded.config),
                false => admin::ask(data_dir, &Question::Status),
            };
            match answer {
                Ok(answer) if json => say(&format!("{answer}\n")),
                Ok(answer) => say(&status::describe(&answer)),
                Err(error) => fail(&error),
            }
        }
        Order::Man(folder) => match handbook::write_pages(cli::command(), &folder) {
            Ok(count) => say(&format!("{count} pages are in {}\n", folder.display())),
            Err(error) => fail(&error),
        },
        Order::Stop => stop::run(data_dir),
        Order::Flush => chore(data_dir, Question::Flush, "flushed\n"),
        Order::Compact => chore(data_dir, Question::Compact, "compacted\n"),
        Order::Transfer(transfer) => transfer::run(&loaded.config, transfer),
        Order::Cql(shell) => cql_shell::run(&loaded.config, *shell),
        Order::Upkeep(upkeep) => upkeep::run(&loaded.config, upkeep),
        Order::Partitions { space, watch } => partitions::show(data_dir, space, watch),
        Order::Estimate(file) => {
            let workload = match file {
                Some(path) => estimate::from_file(&path),
                None => admin::ask(data_dir, &Question::Workload)
                    .map(|record| estimate::of_record(&record))
                    .map_err(|error| error.to_string()),
            };
            match workload {
                Ok(workload) => say(&workload.describe(&loaded.config.units.prices)),
                Err(error) => fail(&error),
            }
        }
        Order::Sets { set, json } => sets::show(data_dir, &Question::Sets(set), json),
        Order::Nodes { json } => sets::show(data_dir, &Question::Nodes, json),
        Order::Split(split) => match admin::ask(data_dir, &Question::Split(split)) {
            Ok(answer) => say(&partitions::describe_split(&answer)),
            Err(error) => fail(&error),
        },
    }
}

fn chore(data_dir: &Path, question: Question, done: &str) -> ExitCode {
    match admin::ask(data_dir, &question) {
        Ok(_) => say(done),
        Err(error) => fail(&error),
    }
}

fn say(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has seen enough.
        Err(_) => ExitCode::FAILURE,
    }
}

/// A remark beside the output, which may be data.
fn say_error(text: &dyn Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn fail(error: &dyn Display) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "helenus: {error}");
    ExitCode::FAILURE
}
