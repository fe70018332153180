//! Where a report goes: into `target/bench`, and, when it is to be published, into the repository.

use super::json::Json;
use super::kept::write;
use super::measure::Figures;
use super::picture;
use super::report::Heading;
use super::workload::{Consistency, Phase, Scenario};
use crate::Outcome;
use crate::place;

/// The picture of the README, in the repository.
const PICTURE: &str = "docs/benchmarks.svg";
/// The report of the last full run, in the repository.
const PUBLISHED: &str = "BENCHMARKS.md";

/// Around the section of the published page that is a run of clusters, which has its own machine, date and commit.
const SECTION_BEGIN: &str = "<!-- clusters: begin -->\n";
const SECTION_END: &str = "<!-- clusters: end -->\n";

const CLOSING_TITLE: &str = "\n## How to get these figures\n";
const CLOSING: &str = "\n`cargo xtask bench` makes this page and its picture anew (`--publish` writes them here), `cargo xtask bench --cluster` the section\n\
                       of clusters; [docs/performance.md](docs/performance.md) says where the time goes.\n";

/// Writes the report of a run.
pub(crate) fn save(
    heading: &Heading,
    markdown: &str,
    json: &Json,
    all: &[Figures],
    is_published: bool,
) -> Outcome {
    let folder = place::bench();
    write(&folder.join("report.md"), markdown)?;
    write(&folder.join("report.json"), &json.to_string())?;
    for figures in all {
        let picture = picture::of_scenario(figures);
        write(&folder.join("pictures").join(format!("{}.svg", figures.scenario.id())), &picture)?;
    }
    let is_cluster = heading.phase == Phase::Cluster;
    let of_overview = if is_cluster { Phase::Cluster } else { Phase::OneCore };
    let is_shown = |it: &&Figures| {
        let Scenario { phase, .. } = it.scenario;
        let is_weak = it.scenario.consistency() == Some(Consistency::LocalOne);
        phase == of_overview && !is_weak && it.scenario.is_main()
    };
    let main: Vec<&Figures> = all.iter().filter(is_shown).collect();
    let caption = format!("{}, {}", heading.machine, heading.date);
    let overview = picture::of_all(&main, &caption);
    write(&folder.join("overview.svg"), &overview)?;
    if !is_published {
        return Ok(());
    }
    let page = place::root().join(PUBLISHED);
    let published = std::fs::read_to_string(&page).unwrap_or_default();
    if is_cluster {
        return write(&page, &with_clusters(&published, markdown));
    }
    write(&place::root().join(PICTURE), &overview)?;
    let with_picture = markdown.replacen("\n\n", &format!("\n\n![ratios]({PICTURE})\n\n"), 1);
    write(&page, &composed(&with_picture, clusters_of(&published)))
}

/// A page: one node's figures, those of clusters if there are some, and how to get them.
fn composed(of_one: &str, of_clusters: &str) -> String {
    let of_clusters = match of_clusters {
        "" => String::new(),
        text => format!("\n{SECTION_BEGIN}{text}{SECTION_END}"),
    };
    format!("{of_one}{of_clusters}{CLOSING_TITLE}{CLOSING}")
}

/// The section of clusters of a page.
fn clusters_of(page: &str) -> &str {
    let inner = page.split_once(SECTION_BEGIN).and_then(|(_, rest)| rest.split_once(SECTION_END));
    inner.map_or("", |(text, _)| text)
}

/// The page with another section of clusters. Its headings are one level below those of a report of its own.
fn with_clusters(page: &str, report: &str) -> String {
    let begin = format!("\n{SECTION_BEGIN}");
    let of_one = page.split_once(&begin).or_else(|| page.split_once(CLOSING_TITLE));
    let of_one = of_one.map_or(page, |(of_one, _)| of_one);
    let lowered = |line: &str| match line.starts_with('#') {
        true => format!("#{line}\n"),
        false => format!("{line}\n"),
    };
    composed(of_one, &report.lines().map(lowered).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_leaves_the_figures_of_the_other_alone() {
        let page = composed("# One\n\nfigures\n", "");
        assert!(page.starts_with("# One\n\nfigures\n\n## How to get these figures\n\n`cargo"));
        let both = with_clusters(&page, "# Clusters\n\n## QUORUM\n");
        assert!(both.contains("\n## Clusters\n\n### QUORUM\n"), "{both}");
        assert_eq!(both.matches("How to get").count(), 1);
        // Again: one section, the new one.
        let again = with_clusters(&both, "# Newer\n");
        assert!(again.contains("## Newer\n") && !again.contains("QUORUM"), "{again}");
        assert_eq!(again.matches("# One").count(), 1);
        // And one node's figures anew, which keeps the clusters'.
        let anew = composed("# Other\n", clusters_of(&again));
        assert!(anew.contains("# Other\n") && anew.contains("## Newer\n"), "{anew}");
        assert_eq!(with_clusters(&anew, "# Newer\n"), anew);
    }
}
