//! The binary `helenus`: the door of the house. It listens, keeps sessions, encrypts, reads the
//! configuration, counts, and wires the rooms together. It has no rules of its own: what a statement
//! means is decided in `plan` and `coordinator`.
//!
//! Reading order: [`cli`] and [`config`] (what the user asks for), [`world`] (the real clock and
//! machine), [`node`] (the wiring), [`door`], [`connection`] and [`session`] (one client),
//! [`statements`] (its statements) with [`reply`] (the only place that knows error codes), [`events`],
//! [`tls`], [`metrics`], [`admin`] and [`log`].
mod admin;
mod cli;
mod config;
mod connection;
mod door;
mod events;
mod log;
mod metrics;
mod roles;
mod session;
mod tls;
mod world;

fn main() {}
