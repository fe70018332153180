//! Prepared statements that outlive changes of their table. A server may have forgotten one; ours does
//! so at every change of the table. In the end it tells when the columns of the result are others than
//! those the client knows.

use protocol::{ErrorKind, PreparedResponse, Response};

use super::answer::{Answer, told};
use super::draft::Statement;
use super::schema::Table;
use crate::{Client, ClientError, Execution};

/// A statement that both servers have prepared.
pub(super) struct Standing {
    /// Its text.
    pub(super) statement: Statement,
    ours: PreparedResponse,
    theirs: PreparedResponse,
}

impl Standing {
    /// Prepares statements about a new table; those that a server refuses are left out.
    pub(super) fn of(
        table: &Table,
        ours: &mut Client,
        theirs: &mut Client,
    ) -> Result<Vec<Standing>, ClientError> {
        let mut texts = vec![format!("SELECT * FROM {}", table.name)];
        if let Some(column) = table.values().last() {
            texts.push(format!("SELECT {} AS one FROM {}", column.name, table.name));
        }
        let mut standing = Vec::new();
        for text in texts {
            if let (Ok(ours), Ok(theirs)) = (ours.prepare(&text)?, theirs.prepare(&text)?) {
                let statement = Statement { text, ..Statement::default() };
                standing.push(Standing { statement, ours, theirs });
            }
        }
        Ok(standing)
    }

    /// The answers of both: ours, then the oracle's.
    pub(super) fn ask(
        &mut self,
        ours: &mut Client,
        theirs: &mut Client,
    ) -> Result<(Answer, Answer), ClientError> {
        let text = &self.statement.text;
        Ok((execute(ours, text, &mut self.ours)?, execute(theirs, text, &mut self.theirs)?))
    }
}

/// Executes as a driver does: prepared again once it is forgotten, with the columns known from before.
fn execute(
    client: &mut Client,
    text: &str,
    prepared: &mut PreparedResponse,
) -> Result<Answer, ClientError> {
    let execution = Execution { skip_metadata: true, ..Execution::default() };
    let mut message = client.execute(prepared, &execution)?;
    let mut story = String::new();
    if let Response::Error(error) = &message.response
        && matches!(error.kind, ErrorKind::Unprepared { .. })
    {
        let known = prepared.result_metadata_id.clone();
        match client.prepare(text)? {
            Ok(again) => *prepared = PreparedResponse { result_metadata_id: known, ..again },
            Err(refused) => return Ok(told(&refused, None)),
        }
        message = client.execute(prepared, &execution)?;
    }
    let Response::Rows(page) = &message.response else { return Ok(told(&message, None)) };
    if let Some(id) = &page.metadata.new_metadata_id {
        story.push_str("its columns changed; ");
        prepared.result_metadata_id = Some(id.clone());
    }
    let columns: Option<Vec<String>> = page
        .metadata
        .columns
        .as_ref()
        .map(|columns| columns.iter().map(|c| format!("{} {}", c.name, c.cql_type)).collect());
    let count = page.metadata.column_count;
    let text = format!("{story}{count} columns, told {columns:?}, {} rows", page.row_count);
    Ok(Answer::Other { markers: None, text })
}
