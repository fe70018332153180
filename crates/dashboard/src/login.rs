//! The page that asks who somebody is, and those that say no.

use maud::{Markup, html};

use crate::figure::cut;
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

/// Somebody is logged in who may not see a page: who could change that, and how to come in as somebody else.
pub fn not_permitted(why: &str, role: &str) -> Markup {
    document(
        "Not permitted",
        false,
        &html! {
            main.login {
                h1 { "Not permitted" }
                p { (why) "." }
                p { "A superuser can let " b { (cut(role, 256)) } " see every page:" }
                pre { code { "GRANT SELECT ON KEYSPACE system_helenus TO …;\nGRANT SELECT ON system_views.system_logs TO …;" } }
                form method="post" action="/logout" { button type="submit" { "Log in as somebody else" } }
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
