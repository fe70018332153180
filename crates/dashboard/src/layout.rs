//! What all pages share: head, navigation, and the place of what changes.

use maud::{DOCTYPE, Markup, html};

use crate::assets::assets;
use crate::figure::{self, cut};

/// A page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    Overview,
    Partitions,
    Nodes,
    Tables,
    Statements,
    Jobs,
}

impl Page {
    /// All, in the order of the navigation, which is that of the keys 1 to 6.
    pub const ALL: [Page; 6] =
        [Page::Overview, Page::Partitions, Page::Nodes, Page::Tables, Page::Statements, Page::Jobs];

    pub fn path(self) -> &'static str {
        match self {
            Page::Overview => "/",
            Page::Partitions => "/partitions",
            Page::Nodes => "/nodes",
            Page::Tables => "/tables",
            Page::Statements => "/statements",
            Page::Jobs => "/jobs",
        }
    }

    /// The page at an address.
    pub fn at(path: &str) -> Option<Page> {
        Page::ALL.into_iter().find(|page| page.path() == path)
    }

    pub fn title(self) -> &'static str {
        match self {
            Page::Overview => "Overview",
            Page::Partitions => "Partitions",
            Page::Nodes => "Nodes",
            Page::Tables => "Tables",
            Page::Statements => "Statements",
            Page::Jobs => "Jobs and events",
        }
    }
}

/// What stands around every page.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    pub cluster: String,
    /// `node 3`, or where a node runs alone its address.
    pub node: String,
    pub version: String,
    /// Who is logged in.
    pub role: Option<String>,
    pub now_ms: i64,
}

impl Frame {
    /// A whole page.
    pub fn page(&self, page: Page, body: &Markup) -> Markup {
        document(
            page.title(),
            true,
            &html! {
                a.skip href="#main" { "To the content" }
                header {
                    div.brand {
                        b { "Helenus" } " "
                        // The name that a cluster has by default says nothing more.
                        span.dim { @if self.cluster != "Helenus" { (cut(&self.cluster, 60)) " · " } (self.node) }
                    }
                    nav aria-label="Pages" {
                        @for (place, other) in Page::ALL.into_iter().enumerate() {
                            a href=(other.path()) aria-current=[(other == page).then_some("page")]
                                accesskey=(place + 1) title=(format!("Key {}", place + 1)) { (other.title()) }
                        }
                    }
                    div.tools {
                        button #theme type="button" hidden title="Light or dark (key t)" aria-label="Light or dark" { "◐" }
                        @if let Some(role) = &self.role {
                            form method="post" action="/logout" { button type="submit" { "Log out " (role) } }
                        }
                    }
                }
                main #main tabindex="-1" { (body) }
                footer {
                    span { "Version " (self.version) " · " time { (figure::date(self.now_ms)) " UTC" } }
                    span #live.dim { "as of the last load" }
                    span.dim { "Keys: 1–6 pages, / search, t theme" }
                }
            },
        )
    }
}

/// An HTML document; `is_live`: with the script that keeps it so.
pub fn document(title: &str, is_live: bool, body: &Markup) -> Markup {
    let all = assets();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (title) " · Helenus" }
                link rel="icon" href=(all.icon.path);
                link rel="stylesheet" href=(all.plot_style.path);
                link rel="stylesheet" href=(all.style.path);
                @if is_live {
                    script src=(all.plot_script.path) defer {}
                    script src=(all.script.path) defer {}
                }
            }
            body { (body) }
        }
    }
}

/// A part of a page that is replaced when there is news. `id` is its place.
pub fn live(id: &str, title: &str, body: &Markup) -> Markup {
    html! {
        section id=(id) data-live { @if !title.is_empty() { h2 { (title) } } (body) }
    }
}

/// A number with a name.
pub fn tile(name: &str, value: &str, note: &str, is_bad: bool) -> Markup {
    html! {
        div.tile.bad[is_bad] {
            span.name { (name) }
            span.value { (value) }
            @if !note.is_empty() { span.note { (note) } }
        }
    }
}

/// How full something is, with a number beside it.
pub fn meter(share: f64, text: &str) -> Markup {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    html! {
        span.meter {
            meter min="0" max="1" high="0.8" optimum="0.2" value=(figure::digits(share)) { (text) }
            " " (text)
        }
    }
}

/// A number, or a dash for one that is not known.
pub fn known(value: Option<String>) -> String {
    value.unwrap_or_else(|| "–".to_owned())
}
