//! Rows as an aligned table, or one below the other.

use std::fmt::Write;

use crate::paint::{Painted, Side};

/// No column of a table that is cut gets less than this.
const COLUMN_WIDTH_MIN: usize = 6;

/// Formatted rows with the names of their columns.
pub(crate) struct Table {
    pub(crate) names: Vec<Painted>,
    pub(crate) rows: Vec<Vec<Painted>>,
}

/// How a table is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) is_coloured: bool,
    /// One value a line.
    pub(crate) is_expanded: bool,
    /// The width of the terminal; no limit without one.
    pub(crate) width_max: Option<usize>,
    /// Whether the names stand above the rows.
    pub(crate) has_header: bool,
    /// Rows that were shown before these.
    pub(crate) rows_before: usize,
}

impl Table {
    /// The table as text.
    pub(crate) fn render(self, layout: &Layout) -> String {
        if layout.is_expanded && !self.rows.is_empty() {
            return self.expanded(layout);
        }
        let widths = self.widths();
        match layout.width_max.map(|width_max| fit(&widths, width_max)) {
            None => self.aligned(&widths, layout),
            Some(Some(fitting)) => self.aligned(&fitting, layout),
            // So many columns that nothing would be left of each.
            Some(None) if !self.rows.is_empty() => self.expanded(layout),
            Some(None) => self.aligned(&widths, layout),
        }
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.names.iter().map(Painted::width).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        widths
    }

    fn aligned(self, widths: &[usize], layout: &Layout) -> String {
        let mut out = String::new();
        let line = |cells: Vec<Painted>, blanks: Side| {
            let cells = cells.into_iter().zip(widths);
            let cells = cells
                .map(|(cell, width)| cell.cut(*width).padded(*width, blanks, layout.is_coloured));
            cells.collect::<Vec<String>>().join(" | ")
        };
        if layout.has_header {
            let header = line(self.names, Side::Right);
            let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            let _ = writeln!(out, " {}\n-{}-", header.trim_end(), rule.join("-+-"));
        }
        for row in self.rows {
            let _ = writeln!(out, " {}", line(row, Side::Left));
        }
        out
    }

    fn expanded(self, layout: &Layout) -> String {
        let name_width = self.names.iter().map(Painted::width).max().unwrap_or(0);
        let value_width = self.rows.iter().flatten().map(Painted::width).max().unwrap_or(0);
        let rule_width = match layout.width_max {
            Some(width_max) => value_width.min(width_max.saturating_sub(name_width + 5)),
            None => value_width,
        };
        let rule = format!("-{}-+-{}-", "-".repeat(name_width), "-".repeat(rule_width));
        let mut out = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            let _ = writeln!(out, "@ Row {}\n{rule}", layout.rows_before + index + 1);
            for (name, value) in self.names.iter().zip(row) {
                let name = name.padded(name_width, Side::Right, layout.is_coloured);
                let _ =
                    writeln!(out, " {name} | {}", value.padded(0, Side::Right, layout.is_coloured));
            }
            out.push('\n');
        }
        out
    }
}

/// The widths with the widest cut until all fit; `None` if they cannot.
fn fit(widths: &[usize], width_max: usize) -> Option<Vec<usize>> {
    let between = 2 + widths.len().saturating_sub(1) * 3;
    let available = width_max.checked_sub(between)?;
    let total = |cap: usize| widths.iter().map(|width| (*width).min(cap)).sum::<usize>();
    let widest = widths.iter().copied().max().unwrap_or(0);
    if total(widest) <= available {
        return Some(widths.to_vec());
    }
    let cap = (COLUMN_WIDTH_MIN..widest).rev().find(|cap| total(*cap) <= available)?;
    Some(widths.iter().map(|width| (*width).min(cap)).collect())
}

/// Names in as many columns as fit, as Python's `cmd` does it.
pub(crate) fn columnize(names: &[String], width_max: usize) -> String {
    let width = |name: &String| unicode_width::UnicodeWidthStr::width(name.as_str());
    if names.is_empty() {
        return "<empty>\n".to_owned();
    }
    for row_count in 1..=names.len() {
        let columns: Vec<&[String]> = names.chunks(row_count).collect();
        let widths: Vec<usize> =
            columns.iter().map(|names| names.iter().map(width).max().unwrap_or(0)).collect();
        let total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        if total > width_max && row_count < names.len() {
            continue;
        }
        let mut out = String::new();
        for row in 0..row_count {
            let cells: Vec<String> = columns
                .iter()
                .zip(&widths)
                .map(|(names, column_width)| {
                    let name = names.get(row).cloned().unwrap_or_default();
                    let fill = column_width.saturating_sub(width(&name));
                    format!("{name}{}", " ".repeat(fill))
                })
                .collect();
            let _ = writeln!(out, "{}", cells.join("  ").trim_end());
        }
        return out;
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paint::Colour;

    const LAYOUT: Layout = Layout {
        is_coloured: false,
        is_expanded: false,
        width_max: None,
        has_header: true,
        rows_before: 0,
    };

    fn table(names: &[&str], rows: &[&[&str]]) -> Table {
        let plain = |texts: &[&str]| {
            texts.iter().map(|text| Painted::new(Colour::Plain, *text)).collect::<Vec<_>>()
        };
        Table { names: plain(names), rows: rows.iter().map(|row| plain(row)).collect() }
    }

    #[test]
    fn names_stand_left_and_values_right() {
        let text = table(&["id", "name"], &[&["1", "ann"], &["22", "日本"]]).render(&LAYOUT);
        assert_eq!(text, " id | name\n----+------\n  1 |  ann\n 22 | 日本\n");
        assert_eq!(table(&["id"], &[]).render(&LAYOUT), " id\n----\n");
    }

    #[test]
    fn one_value_a_line() {
        let layout = Layout { is_expanded: true, rows_before: 100, ..LAYOUT };
        let text = table(&["id", "name"], &[&["1", "ann"]]).render(&layout);
        assert_eq!(text, "@ Row 101\n------+-----\n id   | 1\n name | ann\n\n");
    }

    #[test]
    fn wide_tables_are_cut_to_the_terminal() {
        let layout = Layout { width_max: Some(24), ..LAYOUT };
        let long = "0123456789012345678901234567890";
        let text = table(&["id", "text"], &[&["1", long]]).render(&layout);
        let rule = "-".repeat(19);
        assert_eq!(text, format!(" id | text\n----+{rule}\n  1 | 0123456789012345…\n"));
        assert!(
            text.lines().all(|line| unicode_width::UnicodeWidthStr::width(line) <= 24),
            "{text}"
        );
        // Too many columns: one below the other.
        let names = ["abcdefg"; 9];
        let text = table(&names, &[&["abcdefgh"; 9]]).render(&layout);
        assert!(text.starts_with("@ Row 1\n"), "{text}");
    }

    #[test]
    fn names_in_columns() {
        let names: Vec<String> = ["aa", "b", "ccc", "d", "e"].map(str::to_owned).to_vec();
        assert_eq!(columnize(&names, 80), "aa  b  ccc  d  e\n");
        assert_eq!(columnize(&names, 9), "aa   d\nb    e\nccc\n");
        assert_eq!(columnize(&[], 80), "<empty>\n");
    }
}
