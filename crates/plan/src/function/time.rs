//! Dates and times.

use types::CqlType;
use types::value::Duration;
use types::value::temporal::timestamp_of_date;
use types::value::temporal::{civil_from_days, date_of_timestamp, days_from_civil, days_in_month};
use types::value::timeuuid::{max_timeuuid, min_timeuuid, timeuuid_millis};

use super::Function;
use super::scalar::{NativeScalar, present};
use crate::error::{PlanError, invalid};
use crate::values::BindContext;

const NANOS_PER_MILLI: i64 = 1_000_000;
const MILLIS_PER_DAY: i64 = 86_400_000;
const NANOS_PER_DAY: i64 = MILLIS_PER_DAY * NANOS_PER_MILLI;

pub(super) fn candidates(name: &str) -> Vec<Function> {
    use CqlType::{Date, Time, TimeUuid, Timestamp};
    let conversions = |from: &[CqlType], result: CqlType| {
        from.iter().map(|from| conversion(name, from.clone(), result.clone())).collect()
    };
    match name {
        "now" | "current_timeuuid" | "currenttimeuuid" => vec![now(name, TimeUuid)],
        "current_timestamp" | "currenttimestamp" => vec![now(name, Timestamp)],
        "current_date" | "currentdate" => vec![now(name, Date)],
        "current_time" | "currenttime" => vec![now(name, Time)],
        "min_timeuuid" | "mintimeuuid" => vec![bound_uuid(name, min_timeuuid)],
        "max_timeuuid" | "maxtimeuuid" => vec![bound_uuid(name, max_timeuuid)],
        "to_date" | "todate" => conversions(&[TimeUuid, Timestamp], Date),
        "to_timestamp" | "totimestamp" => conversions(&[TimeUuid, Date], Timestamp),
        "to_unix_timestamp" | "tounixtimestamp" => {
            conversions(&[TimeUuid, Timestamp, Date], CqlType::BigInt)
        }
        "floor" => floors(),
        _ => Vec::new(),
    }
}

fn now(name: &str, result: CqlType) -> Function {
    let produced = result.clone();
    NativeScalar::new(name.to_string(), Vec::new(), result, move |_, context| {
        Ok(Some(current(&produced, context)))
    })
    .impure()
    .into_function()
}

fn current(cql_type: &CqlType, context: &BindContext<'_>) -> Vec<u8> {
    let millis = context.now_us.div_euclid(1000);
    match cql_type {
        CqlType::TimeUuid => context.uuids.time_uuid().to_vec(),
        CqlType::Date => date_of_timestamp(millis).to_be_bytes().to_vec(),
        CqlType::Time => {
            let nanos = context.now_us.rem_euclid(MILLIS_PER_DAY * 1000) * 1000;
            nanos.to_be_bytes().to_vec()
        }
        _ => millis.to_be_bytes().to_vec(),
    }
}

fn bound_uuid(name: &str, make: fn(i64) -> [u8; 16]) -> Function {
    NativeScalar::of_one(name.to_string(), CqlType::Timestamp, CqlType::TimeUuid, move |value| {
        Ok(millis_of(&CqlType::Timestamp, value).map(|millis| make(millis).to_vec()))
    })
    .into_function()
}

/// The time of a temporal value in milliseconds since the epoch.
pub(super) fn millis_of(cql_type: &CqlType, value: &[u8]) -> Option<i64> {
    match cql_type {
        CqlType::TimeUuid => timeuuid_millis(value),
        CqlType::Date => {
            value.try_into().ok().map(|bytes| timestamp_of_date(u32::from_be_bytes(bytes)))
        }
        _ => value.try_into().ok().map(i64::from_be_bytes),
    }
}

/// A time in milliseconds as a value of a temporal type, or as `bigint`.
fn from_millis(cql_type: &CqlType, millis: i64) -> Vec<u8> {
    match cql_type {
        CqlType::Date => date_of_timestamp(millis).to_be_bytes().to_vec(),
        _ => millis.to_be_bytes().to_vec(),
    }
}

pub(super) fn convert(from: &CqlType, to: &CqlType, value: &[u8]) -> Option<Vec<u8>> {
    millis_of(from, value).map(|millis| from_millis(to, millis))
}

fn conversion(name: &str, from: CqlType, to: CqlType) -> Function {
    let (source, target) = (from.clone(), to.clone());
    NativeScalar::of_one(name.to_string(), from, to, move |value| {
        Ok(convert(&source, &target, value))
    })
    .monotonic()
    .into_function()
}

fn floors() -> Vec<Function> {
    let mut functions = Vec::new();
    for (time, result) in [
        (CqlType::Timestamp, CqlType::Timestamp),
        (CqlType::TimeUuid, CqlType::Timestamp),
        (CqlType::Date, CqlType::Date),
    ] {
        let start = if time == CqlType::TimeUuid { CqlType::Timestamp } else { time.clone() };
        let two = vec![time.clone(), CqlType::Duration];
        let three = vec![time.clone(), CqlType::Duration, start];
        functions.push(floor(two, result.clone()));
        functions.push(floor(three, result));
    }
    functions.push(floor_of_time());
    functions
}

fn floor(types: Vec<CqlType>, result: CqlType) -> Function {
    let (argument_types, result_type) = (types.clone(), result.clone());
    NativeScalar::new("floor", types, result, move |arguments, _| {
        let mut values = Vec::with_capacity(3);
        for (index, cql_type) in argument_types.iter().enumerate() {
            match present(arguments, index, cql_type) {
                Some(value) => values.push(value),
                None => return Ok(None),
            }
        }
        let (Some(time_type), [time, duration, start @ ..]) =
            (argument_types.first(), values.as_slice())
        else {
            return Ok(None);
        };
        let duration = Duration::decode(duration)?;
        if result_type == CqlType::Date && !duration.has_day_precision() {
            return invalid!(
                "The floor on date values cannot be computed for the {duration} duration as precision is below 1 day"
            );
        }
        if !duration.has_millisecond_precision() {
            return invalid!(
                "The floor cannot be computed for the {duration} duration as precision is below 1 millisecond"
            );
        }
        let start = match start.first().zip(argument_types.get(2)) {
            Some((start, cql_type)) => millis_of(cql_type, start).unwrap_or(0),
            None => 0,
        };
        let Some(time) = millis_of(time_type, time) else { return Ok(None) };
        let floor = floor_timestamp(time, &duration, start)?;
        Ok(Some(from_millis(&result_type, floor)))
    })
    .monotonic()
    .into_function()
}

fn floor_of_time() -> Function {
    let types = vec![CqlType::Time, CqlType::Duration];
    NativeScalar::new("floor", types, CqlType::Time, |arguments, _| {
        let (Some(time), Some(duration)) =
            (present(arguments, 0, &CqlType::Time), present(arguments, 1, &CqlType::Duration))
        else {
            return Ok(None);
        };
        let Ok(nanos) = time.try_into().map(i64::from_be_bytes) else { return Ok(None) };
        let duration = Duration::decode(duration)?;
        check_positive(&duration)?;
        if duration.months != 0 || duration.days != 0 || duration.nanos > NANOS_PER_DAY {
            return invalid!(
                "For time values, the floor can only be computed for durations smaller that a day"
            );
        }
        let floor = if duration.nanos == 0 { nanos } else { nanos - nanos % duration.nanos };
        Ok(Some(floor.to_be_bytes().to_vec()))
    })
    .monotonic()
    .into_function()
}

fn check_positive(duration: &Duration) -> Result<(), PlanError> {
    if duration.is_negative() {
        return invalid!("Negative durations are not supported by the floor function");
    }
    Ok(())
}

/// The start of the interval of that length, counted from `start`, in which a time lies.
fn floor_timestamp(time: i64, duration: &Duration, start: i64) -> Result<i64, PlanError> {
    if start > time {
        return invalid!("The floor function starting time is greater than the provided time");
    }
    check_positive(duration)?;
    if duration.months == 0 {
        let step = i64::from(duration.days) * MILLIS_PER_DAY + duration.nanos / NANOS_PER_MILLI;
        let elapsed = time - start;
        return Ok(if step == 0 { time } else { time - elapsed % step });
    }
    let months_between = calendar_months(time) - calendar_months(start);
    let mut multiplier = months_between / i64::from(duration.months);
    let mut floor = add_duration(start, duration, multiplier);
    while floor > time && multiplier > 0 {
        multiplier -= 1;
        floor = add_duration(start, duration, multiplier);
    }
    Ok(floor)
}

fn calendar_months(millis: i64) -> i64 {
    let (year, month, _) = civil_from_days(millis.div_euclid(MILLIS_PER_DAY));
    year * 12 + i64::from(month) - 1
}

fn add_duration(start: i64, duration: &Duration, multiplier: i64) -> i64 {
    let days = start.div_euclid(MILLIS_PER_DAY);
    let (_, _, day) = civil_from_days(days);
    let months = calendar_months(start) + i64::from(duration.months) * multiplier;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u32 + 1);
    let day = day.min(days_in_month(year, month));
    let moved = days_from_civil(year, month, day) + i64::from(duration.days) * multiplier;
    moved * MILLIS_PER_DAY
        + start.rem_euclid(MILLIS_PER_DAY)
        + duration.nanos / NANOS_PER_MILLI * multiplier
}
