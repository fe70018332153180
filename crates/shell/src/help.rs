//! What HELP says.

pub(crate) const OVERVIEW: &str = "
Statements end with a semicolon and may go over many lines. Tab completes,
arrows and Ctrl-R find earlier ones, Ctrl-C drops what was typed or stops
waiting for an answer, Ctrl-D ends. HELP WORD tells more.

  CONSISTENCY [LEVEL]              how many replicas must answer
  SERIAL CONSISTENCY [LEVEL]       the same for conditions (IF ...)
  COST [ON|OFF]                    charge, time and plan below each statement
  EXPAND [ON|OFF]                  one value a line
  PAGING [ON|OFF|ROWS]             results page by page
  TRACING [ON|OFF]                 what the nodes did for each statement
  DESCRIBE ...                     definitions as CQL; DESC for short
  SHOW VERSION|HOST|SESSION ID     whom we speak to; a trace
  SOURCE 'FILE'                    run a file
  CAPTURE ['FILE'|OFF]             append results to a file
  COPY TABLE TO|FROM 'FILE'        a table as CSV
  LOGIN ROLE ['PASSWORD']          be somebody else
  HISTORY [COUNT]                  what was typed last
  CLEAR                            empty the screen
  EXIT                             end; QUIT as well
";

const TOPICS: [(&[&str], &str); 14] = [
    (
        &["CONSISTENCY"],
        "
CONSISTENCY            shows the level
CONSISTENCY LEVEL      sets it for all statements that follow; ONE at first

Levels: ANY, ONE, TWO, THREE, QUORUM, ALL, LOCAL_ONE, LOCAL_QUORUM, EACH_QUORUM,
SERIAL, LOCAL_SERIAL.
SERIAL and LOCAL_SERIAL are for SELECT only.
",
    ),
    (
        &["SERIAL"],
        "
SERIAL CONSISTENCY [SERIAL|LOCAL_SERIAL]

The level of conditions: INSERT ... IF NOT EXISTS, UPDATE ... IF
",
    ),
    (
        &["COST"],
        "
COST ON      below each statement: its charge in request units, time and plan
COST OFF     no more
COST         says which

A node that is no Helenus tells no charge and no plan; the time is there.
",
    ),
    (
        &["EXPAND"],
        "
EXPAND ON      one value a line, for wide rows
EXPAND OFF     tables
EXPAND         says which

On a terminal, a table that is too wide is cut to it: values end with …, and are
whole with EXPAND ON. One with too many columns even for that is expanded by
itself.
",
    ),
    (
        &["PAGING"],
        "
PAGING ON       results in pages of 100 rows; on a terminal it waits after each
PAGING ROWS     in pages of so many rows
PAGING OFF      each result as a whole
",
    ),
    (
        &["TRACING"],
        "
TRACING ON      what the nodes did, below each statement
TRACING OFF     no more

SHOW SESSION ID prints a trace again.
",
    ),
    (
        &["DESCRIBE", "DESC"],
        "
DESCRIBE KEYSPACES | TABLES | TYPES | FUNCTIONS | AGGREGATES      names
DESCRIBE KEYSPACE [NAME]                    everything in it, as CQL
DESCRIBE TABLE|INDEX|TYPE|FUNCTION|AGGREGATE|MATERIALIZED VIEW [KEYSPACE.]NAME
DESCRIBE [FULL] SCHEMA                      everything; FULL: the system's too
DESCRIBE CLUSTER                            name, partitioner, and who owns what
DESCRIBE NAME                               whatever has that name
",
    ),
    (
        &["SHOW"],
        "
SHOW VERSION         of the shell, the node, CQL and the protocol
SHOW HOST            where we are connected to
SHOW SESSION ID      a trace
",
    ),
    (
        &["SOURCE"],
        "
SOURCE 'FILE'      runs what is in the file

An error does not end it; its line is told.
",
    ),
    (
        &["CAPTURE"],
        "
CAPTURE 'FILE'      results are appended to the file, and errors still shown
CAPTURE OFF         no more
CAPTURE             says where to
",
    ),
    (
        &["COPY"],
        "
COPY TABLE [(COLUMN, ...)] TO   'FILE'|STDOUT [WITH OPTION = VALUE [AND ...]]
COPY TABLE [(COLUMN, ...)] FROM 'FILE'|STDIN  [WITH OPTION = VALUE [AND ...]]

  HEADER = false          whether the first line names the columns
  DELIMITER = ','         between two fields
  QUOTE = '\"'             around a field
  ESCAPE = '\\'            before a quote inside of a field
  NULL = ''               what stands for null
  BOOLSTYLE = 'True,False'

TO:    PAGESIZE = 1000, FLOATPRECISION and DOUBLEPRECISION (digits; all that
       matter without them)
FROM:  MAXROWS, SKIPROWS, SKIPCOLS = 'a,b', TTL = SECONDS, CHUNKSIZE = 128 (rows
       that are on their way at once)

An import stops at the first line that cannot be read or written, and says
which; run again, it writes the same rows again. From STDIN, a line with \\. ends
it.
",
    ),
    (
        &["LOGIN"],
        "
LOGIN ROLE                 asks for the password, and does not show it
LOGIN ROLE 'PASSWORD'      with it; such a line is not kept in the history
",
    ),
    (
        &["HISTORY"],
        "
HISTORY [COUNT]      the last 50 statements that were typed, or so many
",
    ),
    (
        &["CLEAR", "CLS", "EXIT", "QUIT", "HELP"],
        "
CLEAR (CLS) empties the screen, EXIT (QUIT) ends the shell, HELP WORD tells of a
command.
",
    ),
];

/// What there is to say of a word.
pub(crate) fn about(topic: &str) -> Option<&'static str> {
    let found = TOPICS.iter().find(|(words, _)| words.contains(&topic));
    found.map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_the_overview_has_its_topic() {
        let commands = OVERVIEW.lines().filter_map(|line| line.strip_prefix("  "));
        for command in commands {
            let word = command.split_whitespace().next().unwrap();
            assert!(about(word).is_some(), "{word}");
        }
        assert!(about("SELECT").is_none());
    }

    #[test]
    fn a_small_terminal_is_wide_enough() {
        let topics = TOPICS.iter().map(|(_, text)| *text);
        for line in topics.chain([OVERVIEW]).flat_map(str::lines) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
