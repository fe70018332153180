//! The dashboard: what a node remembers of the last day, and the pages that show it. Pure: numbers and names come in as plain
//! structs, HTML and SVG go out. It knows no socket, no clock and no other crate of ours.
//!
//! Invariants: every name that comes in is escaped (maud does it), no page has a script or a style of its own, so that a strict
//! policy of content holds; every list is cut at a named bound, so that a page stays under [`PAGE_BYTES_MAX`].
//!
//! Reading order: [`history`] and [`heat`] (what is remembered), [`figure`] (numbers for people), [`chart`], [`heat_map`] and
//! [`ring`] (pictures), [`layout`] (what all pages share), then a file for each page.

pub mod assets;
pub mod chart;
pub mod figure;
pub mod heat;
pub mod heat_map;
pub mod history;
pub mod jobs;
pub mod layout;
pub mod login;
pub mod nodes;
pub mod overview;
pub mod partitions;
pub mod ring;
pub mod statements;
pub mod tables;

pub use maud::{Markup, PreEscaped};

/// No page is larger, whatever the cluster has.
pub const PAGE_BYTES_MAX: usize = 100 * 1024;
