//! The known name that a misspelt one probably meant.

/// The nearest of `known`, if any is near enough to be meant.
pub(super) fn nearest<'a>(
    wanted: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let wanted = wanted.to_ascii_lowercase();
    known
        .into_iter()
        .map(|name| (distance_to(&wanted, name), name))
        .filter(|(distance, name)| *distance <= (name.len() / 4).max(2))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// A name without its section is as near as the full one, with one step for the missing section.
fn distance_to(wanted: &str, name: &str) -> usize {
    let full = edit_distance(wanted, name);
    match name.split_once('.') {
        Some((_, key)) if !wanted.contains('.') => full.min(edit_distance(wanted, key) + 1),
        Some((_, key)) => match wanted.rsplit_once('.') {
            // The right key in the wrong section.
            Some((_, wanted_key)) if wanted_key == key => full.min(2),
            _ => full,
        },
        None => full,
    }
}

/// How many characters must be put in, taken out, changed or swapped with their neighbour.
fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    let mut previous_left = None;
    for (row, left) in left.chars().enumerate() {
        let mut current = Vec::with_capacity(last.len());
        current.push(row + 1);
        for (column, &other) in right.iter().enumerate() {
            let at = |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX);
            let change = at(&last, column) + usize::from(left != other);
            let mut best = change.min(at(&last, column + 1) + 1).min(at(&current, column) + 1);
            let swapped =
                column > 0 && previous_left == Some(other) && right.get(column - 1) == Some(&left);
            if swapped {
                best = best.min(at(&before_last, column - 1).saturating_add(1));
            }
            current.push(best);
        }
        before_last = std::mem::replace(&mut last, current);
        previous_left = Some(left);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names() {
        let known = ["profile", "server.listen", "server.data_dir", "storage.commit"];
        let cases = [
            ("server.listn", Some("server.listen")),
            ("server.lisetn", Some("server.listen")),
            ("listen", Some("server.listen")),
            ("storage.data_dir", Some("server.data_dir")),
            ("Profile", Some("profile")),
            ("storage.comit", Some("storage.commit")),
            ("something.else", None),
        ];
        for (wanted, expected) in cases {
            assert_eq!(nearest(wanted, known), expected, "{wanted}");
        }
    }

    #[test]
    fn distances() {
        for (left, right, expected) in
            [("", "", 0), ("a", "", 1), ("ab", "ba", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(edit_distance(left, right), expected, "{left} {right}");
        }
    }
}
