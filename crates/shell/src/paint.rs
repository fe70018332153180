//! Text in colours: what a cell of a table is made of, how wide it is on a terminal, and how it is cut.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What is behind a text that had to be cut.
const CUT_MARK: char = '…';

/// The colours of cqlsh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Plain,
    /// Null, errors, columns of the partition key.
    Red,
    /// Numbers, times, addresses.
    Green,
    /// Text.
    Yellow,
    /// What holds collections together.
    Blue,
    /// Names of columns.
    Magenta,
    /// Names of clustering columns.
    Cyan,
    /// Names of static columns.
    White,
    /// Blobs and escapes.
    DarkMagenta,
}

const RESET: &str = "\x1b[0m";

impl Colour {
    fn code(self) -> &'static str {
        match self {
            Colour::Plain => "",
            Colour::Red => "\x1b[0;1;31m",
            Colour::Green => "\x1b[0;1;32m",
            Colour::Yellow => "\x1b[0;1;33m",
            Colour::Blue => "\x1b[0;1;34m",
            Colour::Magenta => "\x1b[0;1;35m",
            Colour::Cyan => "\x1b[0;1;36m",
            Colour::White => "\x1b[0;1;37m",
            Colour::DarkMagenta => "\x1b[0;35m",
        }
    }

    /// The text in this colour, where colours are wanted.
    pub(crate) fn paint(self, text: &str, is_coloured: bool) -> String {
        if !is_coloured || self == Colour::Plain {
            return text.to_owned();
        }
        format!("{}{text}{RESET}", self.code())
    }
}

/// A text whose parts have colours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Painted {
    parts: Vec<(Colour, String)>,
}

/// On which side the blanks go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

impl Painted {
    pub(crate) fn new(colour: Colour, text: impl Into<String>) -> Painted {
        Painted { parts: vec![(colour, text.into())] }
    }

    pub(crate) fn push(&mut self, colour: Colour, text: impl Into<String>) {
        self.parts.push((colour, text.into()));
    }

    pub(crate) fn append(&mut self, other: Painted) {
        self.parts.extend(other.parts);
    }

    /// Without colours.
    pub(crate) fn plain(&self) -> String {
        self.parts.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Columns of a terminal.
    pub(crate) fn width(&self) -> usize {
        self.parts.iter().map(|(_, text)| text.width()).sum()
    }

    /// At most so wide, with a mark where something is missing.
    pub(crate) fn cut(self, width_max: usize) -> Painted {
        if self.width() <= width_max {
            return self;
        }
        let mut left = width_max.saturating_sub(1);
        let mut cut = Painted::default();
        for (colour, text) in self.parts {
            let mut kept = String::new();
            let mut is_full = false;
            for character in text.chars() {
                let width = character.width().unwrap_or(0);
                if width > left {
                    is_full = true;
                    break;
                }
                left -= width;
                kept.push(character);
            }
            if is_full {
                kept.push(CUT_MARK);
                cut.push(colour, kept);
                break;
            }
            cut.push(colour, kept);
        }
        cut
    }

    /// As it is written, filled up with blanks to a width.
    pub(crate) fn padded(&self, width: usize, blanks: Side, is_coloured: bool) -> String {
        let text: String =
            self.parts.iter().map(|(colour, text)| colour.paint(text, is_coloured)).collect();
        let fill = " ".repeat(width.saturating_sub(self.width()));
        match blanks {
            Side::Left => fill + &text,
            Side::Right => text + &fill,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_by_the_columns_they_take() {
        let check = |text: &str, width: usize, expect: &str| {
            let cut = Painted::new(Colour::Plain, text).cut(width);
            assert_eq!(cut.plain(), expect);
            assert!(cut.width() <= width.max(1), "{text}");
        };
        check("abc", 3, "abc");
        check("abcd", 3, "ab…");
        check("日本語", 6, "日本語");
        check("日本語", 5, "日本…");
        check("日本語", 4, "日…");
        check("abc", 1, "…");
        let mut parts = Painted::new(Colour::Blue, "[");
        parts.push(Colour::Green, "12345");
        parts.push(Colour::Blue, "]");
        assert_eq!(parts.clone().cut(5).plain(), "[123…");
        assert_eq!(parts.cut(7).plain(), "[12345]");
    }

    #[test]
    fn blanks_do_not_count_colours() {
        let cell = Painted::new(Colour::Green, "7");
        assert_eq!(cell.padded(3, Side::Left, false), "  7");
        assert_eq!(cell.padded(3, Side::Left, true), "  \x1b[0;1;32m7\x1b[0m");
        assert_eq!(cell.padded(3, Side::Right, true), "\x1b[0;1;32m7\x1b[0m  ");
        assert_eq!(Painted::new(Colour::Plain, "é日").padded(5, Side::Left, false), "  é日");
    }
}
