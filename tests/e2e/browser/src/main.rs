//! The dashboard of a cluster under load, as a person with a browser sees it: `NAME DRIVER_ADDRESS FOLDER FIRST SECOND`, where FIRST and SECOND are
//! the dashboards of two nodes. Screenshots go to FOLDER. Follows the contract of `tests/e2e/README.md`.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};

/// How long a page may take to show what it should: a sample comes every ten seconds.
const PATIENCE: Duration = Duration::from_secs(60);
const PAGES: [(&str, &str); 6] = [
    ("overview", "/"),
    ("partitions", "/partitions"),
    ("nodes", "/nodes"),
    ("tables", "/tables"),
    ("statements", "/statements"),
    ("jobs", "/jobs"),
];

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let words: Vec<String> = std::env::args().collect();
    let [_, _name, driver, folder, first, second] = words.as_slice() else {
        return Err("NAME DRIVER_ADDRESS FOLDER FIRST SECOND".into());
    };
    // The browser itself speaks to nobody else, which a machine without a network would have it wait for.
    let quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync"];
    let plain = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"];
    let more = ["--disable-quic", "--no-first-run", "--disable-dev-shm-usage"];
    let arguments: Vec<&str> = [&plain[..], &quiet, &more].concat();
    let options = json!({ "args": arguments });
    let mut capabilities = serde_json::Map::new();
    capabilities.insert("goog:chromeOptions".to_owned(), options);
    let client =
        ClientBuilder::new(HttpConnector::new()).capabilities(capabilities).connect(driver).await?;
    let browser = Browser { client: client.clone(), folder: PathBuf::from(folder) };
    let outcome = browser.walk(first, second).await;
    client.close().await?;
    outcome
}

struct Browser {
    client: Client,
    folder: PathBuf,
}

impl Browser {
    async fn walk(&self, first: &str, second: &str) -> Outcome {
        self.client.set_window_size(1400, 1000).await?;
        self.client.goto(first).await?;
        self.wait_for("the load is in the tiles", LOADED).await?;
        self.wait_for(
            "charts can be zoomed",
            "return document.querySelectorAll('.chart.zooms .uplot').length === 8",
        )
        .await?;
        for (name, path) in PAGES {
            self.client.goto(&format!("{first}{path}")).await?;
            self.wait_for("the page is drawn", DRAWN).await?;
            self.check("every request went to the node", FROM_HERE).await?;
            self.check("nothing is wider than the page", FITS).await?;
            self.keep(&format!("{name}-light")).await?;
            println!("ok {name} is shown");
        }
        self.client.goto(first).await?;
        self.wait_for(
            "news come by themselves",
            "return document.getElementById('live').textContent.startsWith('live, last news')",
        )
        .await?;
        println!("ok pages are live");
        self.keyboard(first).await?;
        self.dark_and_small(first).await?;
        self.explain(first).await?;
        self.lost_node(second).await
    }

    /// Keys lead to pages, to the search, and to the dark.
    async fn keyboard(&self, first: &str) -> Outcome {
        self.client.find(Locator::Css("body")).await?.send_keys("4").await?;
        self.wait_for("key 4 leads to the tables", "return location.pathname === '/tables'")
            .await?;
        self.client.find(Locator::Css("body")).await?.send_keys("/").await?;
        self.wait_for(
            "a slash leads to the search",
            "return document.activeElement.name === 'find'",
        )
        .await?;
        self.client.goto(first).await?;
        self.client.find(Locator::Css("body")).await?.send_keys("t").await?;
        self.wait_for(
            "t turns light into dark",
            "return document.documentElement.dataset.theme === 'dark'",
        )
        .await?;
        println!("ok the keyboard is enough");
        Ok(())
    }

    async fn dark_and_small(&self, first: &str) -> Outcome {
        for (name, path) in PAGES {
            self.client.goto(&format!("{first}{path}")).await?;
            self.wait_for("the page is drawn", DRAWN).await?;
            self.keep(&format!("{name}-dark")).await?;
        }
        self.client.set_window_size(400, 860).await?;
        for (name, path) in PAGES {
            self.client.goto(&format!("{first}{path}")).await?;
            self.wait_for("the page is drawn", DRAWN).await?;
            self.check("nothing is wider than a phone", FITS).await?;
            self.keep(&format!("{name}-phone")).await?;
        }
        self.client.set_window_size(1400, 1000).await?;
        println!("ok dark, and on a phone");
        Ok(())
    }

    /// A statement is one click away from its explanation.
    async fn explain(&self, first: &str) -> Outcome {
        self.client.goto(&format!("{first}/statements")).await?;
        let button = "#costliest a.button";
        self.wait_for(
            "there are statements",
            &format!("return document.querySelector('{button}') !== null"),
        )
        .await?;
        self.client.find(Locator::Css(button)).await?.click().await?;
        self.wait_for("a statement is explained", "return location.pathname === '/explain'")
            .await?;
        self.wait_for("the page is drawn", DRAWN).await?;
        self.keep("explain-dark").await?;
        println!("ok EXPLAIN is one click away");
        Ok(())
    }

    /// Another node tells what is wrong when one is lost.
    async fn lost_node(&self, second: &str) -> Outcome {
        println!("KILL 4 PLEASE");
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer)?;
        self.client.goto(second).await?;
        self.wait_for("the lost node is told of", "return document.querySelector('.problems')?.textContent.includes('Node 4 is not alive')").await?;
        self.keep("lost-overview").await?;
        self.client.goto(&format!("{second}/nodes")).await?;
        self.wait_for("the page is drawn", DRAWN).await?;
        self.keep("lost-nodes").await?;
        println!("ok a lost node is told of");
        Ok(())
    }

    async fn ask(&self, script: &str) -> Result<bool, Box<dyn std::error::Error>> {
        Ok(self.client.execute(script, Vec::new()).await? == Value::Bool(true))
    }

    async fn check(&self, what: &str, script: &str) -> Outcome {
        match self.ask(script).await? {
            true => Ok(()),
            false => {
                println!("FAILED {what}");
                Err(what.into())
            }
        }
    }

    async fn wait_for(&self, what: &str, script: &str) -> Outcome {
        let begun = std::time::Instant::now();
        while begun.elapsed() < PATIENCE {
            if self.ask(script).await? {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.keep("failed").await?;
        self.check(what, script).await
    }

    async fn keep(&self, name: &str) -> Outcome {
        let picture = self.client.screenshot().await?;
        std::fs::write(Path::new(&self.folder).join(format!("{name}.png")), picture)?;
        Ok(())
    }
}

const LOADED: &str = "return parseFloat(document.querySelector('.tile .value').textContent) > 0";
const FROM_HERE: &str = "return performance.getEntriesByType('resource').every((it) => it.name.startsWith(location.origin + '/'))";
const FITS: &str = "return document.documentElement.scrollWidth <= innerWidth";
/// Everything is there, and charts that can be zoomed are.
const DRAWN: &str = "return document.readyState === 'complete' && [...document.querySelectorAll('#charts .chart')].every((it) => it.querySelector('.uplot'))";
