//! The page that asks who somebody is, and those that say no.

use maud::{Markup, html};

use crate::layout::document;

/// Asks for a name and a password; `problem`: why it asks again.
pub fn markup(problem: Option<&str>) -> Markup {
    document(
        "Log in",
        false,
        &html! {
            main.login {
                h1 { "Helenus" }
                p { "Clients of this cluster must log in, and so must you." }
                @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
                form method="post" action="/login" {
                    label { "Role" input name="name" autocomplete="username" autofocus required maxlength="256"; }
                    label { "Password" input name="password" type="password" autocomplete="current-password" maxlength="256"; }
                    button type="submit" { "Log in" }
                }
                p.dim { "This port does not encrypt: reach it over loopback, a tunnel, or a proxy that does." }
            }
        },
    )
}

/// Says why there is no page.
pub fn refusal(title: &str, why: &str) -> Markup {
    document(
        title,
        false,
        &html! {
            main.login {
                h1 { (title) }
                p { (why) }
                p { a href="/" { "To the overview" } }
            }
        },
    )
}
