//! Times of the week, in minutes from Monday 00:00: days and times of the day as text.

pub(crate) const MINUTES_OF_DAY: u32 = 24 * 60;
pub(crate) const MINUTES_OF_WEEK: u32 = 7 * MINUTES_OF_DAY;
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
/// Form of an entry, for messages.
pub(crate) const FORM: &str = "write [DAYS] [TIMES]=RATE, such as mon-fri 08:00-18:00=200mbit";

/// A minute of the week as text, such as `tue 08:00`.
pub(crate) fn name(minute: u32) -> String {
    let (day, of_day) = (minute / MINUTES_OF_DAY, minute % MINUTES_OF_DAY);
    format!("{} {:02}:{:02}", DAYS[day as usize % DAYS.len()], of_day / 60, of_day % 60)
}

/// Minutes of the week that days and times name.
pub(crate) fn spans(when: &str) -> Result<Vec<(u32, u32)>, String> {
    let mut words = when.split_whitespace().peekable();
    let mut days = (0..7).collect::<Vec<u32>>();
    let has_days = words.peek().is_some_and(|word| word.starts_with(|letter: char| letter.is_ascii_alphabetic()));
    if let Some(word) = words.next_if(|_| has_days) {
        days = day_range(word)?;
    }
    let times = words.next().map(time_range).transpose()?;
    if words.next().is_some() || !has_days && times.is_none() {
        return Err(FORM.to_owned());
    }
    let (from, to) = times.unwrap_or((0, MINUTES_OF_DAY));
    let whole = days.into_iter().map(|day| (day * MINUTES_OF_DAY + from, day * MINUTES_OF_DAY + to));
    // What is after the end of the week is at its beginning.
    Ok(whole
        .flat_map(|(from, to)| [(from, to.min(MINUTES_OF_WEEK)), (0, to.saturating_sub(MINUTES_OF_WEEK))])
        .filter(|(from, to)| from < to)
        .collect())
}

/// Days of `DAY` or `DAY-DAY`, from Monday as 0; a range may go beyond Sunday.
fn day_range(text: &str) -> Result<Vec<u32>, String> {
    let day = |name: &str| {
        let known = DAYS.iter().position(|day| *day == name);
        known.map(|day| day as u32).ok_or_else(|| format!("{name:?} is no day; the days are {}", DAYS.join(", ")))
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (day(first)?, day(last)?);
    let count = (last + 7 - first) % 7 + 1;
    Ok((first..first + count).map(|day| day % 7).collect())
}

/// Minutes of the day of `HH:MM-HH:MM`; an end that is not after the beginning is on the next day.
fn time_range(text: &str) -> Result<(u32, u32), String> {
    let (from, to) = text.split_once('-').ok_or_else(|| format!("{text:?} is no time: write it as 08:00-18:00"))?;
    let (from, to) = (time(from)?, time(to)?);
    match to {
        _ if from == MINUTES_OF_DAY => Err(format!("{text:?}: a time begins from 00:00 to 23:59")),
        _ if from == to => Err(format!("{text:?} is empty; for a whole day, leave the time out")),
        _ if from < to => Ok((from, to)),
        _ => Ok((from, to + MINUTES_OF_DAY)),
    }
}

/// Minute of the day of `HH:MM`, up to 24:00.
fn time(text: &str) -> Result<u32, String> {
    let number = |digits: &str| {
        let fits = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<u32>().ok().filter(|_| fits)
    };
    let parts = text.split_once(':').and_then(|(hour, minute)| Some((number(hour)?, number(minute)?)));
    let minute = parts.filter(|(hour, minute)| *hour <= 24 && *minute < 60).map(|(hour, minute)| hour * 60 + minute);
    minute
        .filter(|minute| *minute <= MINUTES_OF_DAY)
        .ok_or_else(|| format!("{text:?} is no time of a day; write one from 00:00 to 24:00"))
}
