//! What a traced statement did, as `system_traces` tells it.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use types::CqlType;
use types::value::format::format_uuid;

use crate::client::ClientError;
use crate::paint::{Colour, Painted};
use crate::session::{Session, text_at};
use crate::table::{Layout, Table};
use crate::values::{Style, format_name, format_timestamp};

/// A trace is written after the answer; it is waited for so long.
const COMPLETE_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Between the beginning of the calendar, which a timeuuid counts from, and 1970, in 100 ns.
const CALENDAR_TICKS: i64 = 0x01b2_1dd2_1381_4000;

impl Session {
    /// Prints a trace.
    pub(crate) fn show_trace(&mut self, id: &[u8; 16]) -> io::Result<()> {
        let started = (self.now)();
        let name = format_uuid(id).unwrap_or_default();
        loop {
            match self.read_trace(id) {
                Ok(Some(trace)) => {
                    let table = trace.table();
                    let layout = Layout {
                        is_coloured: self.screen.is_coloured(),
                        is_expanded: false,
                        width_max: self.screen.table_width_max(),
                        has_header: true,
                        rows_before: 0,
                    };
                    let title = self.screen.paint(Colour::Magenta, "Tracing session: ");
                    let text = table.render(&layout);
                    return self.screen.beside(&format!("\n{title}{name}\n\n{text}\n"));
                }
                Ok(None) if (self.now)().saturating_duration_since(started) < COMPLETE_WITHIN => {
                    sleep(LOOK_EVERY);
                }
                Ok(None) => return self.fail(&format!("Session {name} wasn't found.")),
                Err(error) => return self.fail(&format!("Unable to fetch query trace: {error}")),
            }
        }
    }

    /// A trace that is complete: the session knows how long it took.
    fn read_trace(&mut self, id: &[u8; 16]) -> Result<Option<Trace>, ClientError> {
        let values = [id.to_vec()];
        let text = "SELECT client, coordinator, duration, request, started_at \
                    FROM system_traces.sessions WHERE session_id = ?";
        let sessions = self.ask(|client| client.query(text, &values))?;
        let Some(session) = sessions.rows().next() else { return Ok(None) };
        let Some(duration_us) = number_at(&session, 2) else { return Ok(None) };
        let text = "SELECT activity, event_id, source, source_elapsed, thread \
                    FROM system_traces.events WHERE session_id = ?";
        let events = self.ask(|client| client.query(text, &values))?;
        let steps = events.rows().map(|row| Step {
            activity: format!("{} [{}]", text_at(&row, 0), text_at(&row, 4)),
            time_us: row.get(1).copied().flatten().and_then(timeuuid_us).unwrap_or(0),
            source: address_at(&row, 2),
            elapsed_us: number_at(&row, 3).filter(|elapsed| *elapsed != 0),
        });
        Ok(Some(Trace {
            request: text_at(&session, 3),
            client: address_at(&session, 0),
            coordinator: address_at(&session, 1),
            started_us: number_at(&session, 4).unwrap_or(0).saturating_mul(1000),
            duration_us,
            steps: steps.collect(),
        }))
    }
}

struct Trace {
    request: String,
    client: String,
    coordinator: String,
    started_us: i64,
    duration_us: i64,
    steps: Vec<Step>,
}

struct Step {
    activity: String,
    time_us: i64,
    source: String,
    elapsed_us: Option<i64>,
}

impl Trace {
    fn table(&self) -> Table {
        let names = ["activity", "timestamp", "source", "source_elapsed", "client"];
        let row = |activity: &str, time_us: i64, source: &str, elapsed: String| {
            let text = |text: &str| Painted::new(Colour::Yellow, text);
            vec![
                text(activity),
                text(&format_time(time_us)),
                text(source),
                Painted::new(Colour::Green, elapsed),
                text(&self.client),
            ]
        };
        let mut rows = vec![row(&self.request, self.started_us, &self.coordinator, "0".to_owned())];
        for step in &self.steps {
            let elapsed = step.elapsed_us.map_or_else(|| "--".to_owned(), |us| us.to_string());
            rows.push(row(&step.activity, step.time_us, &step.source, elapsed));
        }
        let ended_us = self.started_us.saturating_add(self.duration_us);
        let elapsed = self.duration_us.to_string();
        rows.push(row("Request complete", ended_us, &self.coordinator, elapsed));
        let names = names.iter().map(|name| format_name(name, Colour::Magenta)).collect();
        Table { names, rows }
    }
}

/// Microseconds since 1970, in UTC and without a zone.
fn format_time(time_us: i64) -> String {
    let text = format_timestamp(time_us.div_euclid(1000), 3);
    let seconds = text.split('.').next().unwrap_or_default();
    format!("{seconds}.{:06}", time_us.rem_euclid(1_000_000))
}

fn number_at(row: &[Option<&[u8]>], index: usize) -> Option<i64> {
    let bytes = row.get(index).copied().flatten()?;
    match bytes.len() {
        4 => Some(i64::from(i32::from_be_bytes(bytes.try_into().ok()?))),
        _ => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
    }
}

fn address_at(row: &[Option<&[u8]>], index: usize) -> String {
    match row.get(index).copied().flatten() {
        Some(bytes) => Style::screen().cell(&CqlType::Inet, Some(bytes)).plain(),
        None => "null".to_owned(),
    }
}

fn timeuuid_us(bytes: &[u8]) -> Option<i64> {
    let number = u128::from_be_bytes(bytes.try_into().ok()?);
    let (low, middle, high) = (number >> 96, number >> 80 & 0xffff, number >> 64 & 0x0fff);
    let ticks = i64::try_from(high << 48 | middle << 32 | low).ok()?;
    Some((ticks - CALENDAR_TICKS) / 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::value::text::parse_uuid;

    #[test]
    fn times_of_events_come_from_their_ids() {
        let id = parse_uuid("50554d6e-29bb-11e5-b345-feff819cdc9f").unwrap();
        let time_us = timeuuid_us(&id).unwrap();
        assert_eq!(format_time(time_us), "2015-07-14 00:00:18.805899");
    }
}
