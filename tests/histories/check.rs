//! Decides afterwards whether a recorded history may have been: what each operation saw, against all that was written meanwhile.

use std::collections::{BTreeMap, HashMap};

/// Begin and end of something, on the clock that all threads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

/// Some operation gave a file another text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) span: Span,
    pub(crate) text: u64,
}

/// Some operation saw a text of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) span: Span,
    pub(crate) text: u64,
}

/// One execution of a stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Execution {
    pub(crate) span: Span,
    pub(crate) failed: bool,
}

/// The writes of one file, so that one can ask what may be seen when.
pub(crate) struct Writes {
    /// By text; the text that a file has when nobody has written may come back often.
    of: HashMap<u64, Vec<Span>>,
    /// Ends in order, and with each the latest begin among the writes that have ended by then.
    ended: Vec<(u64, u64)>,
}

impl Writes {
    pub(crate) fn new(writes: &[Write]) -> Self {
        let mut of: HashMap<u64, Vec<Span>> = HashMap::new();
        let mut spans = Vec::with_capacity(writes.len());
        for write in writes {
            of.entry(write.text).or_default().push(write.span);
            spans.push(write.span);
        }
        spans.sort_unstable_by_key(|span| span.end);
        let mut latest = 0;
        let ended = spans.into_iter().map(|span| {
            latest = latest.max(span.begin);
            (span.end, latest)
        });
        Self { ended: ended.collect(), of }
    }

    /// Whether `seen` is a text that stood at some moment of its span: written before it ended, and not certainly replaced
    /// before it began.
    pub(crate) fn may_be(&self, seen: Seen) -> Result<(), String> {
        let Some(candidates) = self.of.get(&seen.text) else { return Err(format!("{seen:?} was never written")) };
        let before = self.ended.partition_point(|&(end, _)| end < seen.span.begin);
        // Some write began only after this moment, and was over when the span began.
        let replaced = before.checked_sub(1).map_or(0, |at| self.ended[at].1);
        let fits = |write: &Span| write.begin < seen.span.end && write.end >= replaced;
        match candidates.iter().any(fits) {
            true => Ok(()),
            false => Err(format!("{seen:?} is older than asked for, or not yet written: {candidates:?}, {replaced}")),
        }
    }
}

/// What an observer saw of a batch's members is of one batch.
pub(crate) fn whole(members: &[Option<u64>]) -> Result<(), String> {
    let first = members.iter().flatten().next();
    match members.iter().flatten().all(|member| Some(member) == first) {
        true => Ok(()),
        false => Err(format!("a part of a batch was seen: {members:?}")),
    }
}

/// One identity ran once for each flight: never twice at a time, and again only after a failure.
pub(crate) fn once(executions: &mut [Execution]) -> Result<(), String> {
    executions.sort_unstable_by_key(|execution| execution.span.begin);
    for pair in executions.windows(2) {
        if pair[0].span.end > pair[1].span.begin || !pair[0].failed {
            return Err(format!("it ran twice: {pair:?}"));
        }
    }
    Ok(())
}

/// The greatest number of spans that lay over one moment.
pub(crate) fn most_at_once<'a>(spans: impl Iterator<Item = &'a Span>) -> usize {
    let mut changes: BTreeMap<u64, i64> = BTreeMap::new();
    for span in spans {
        *changes.entry(span.begin).or_default() += 1;
        *changes.entry(span.end).or_default() -= 1;
    }
    let (mut now, mut most) = (0, 0);
    for change in changes.values() {
        now += change;
        most = most.max(now);
    }
    usize::try_from(most).expect("no span ends before it begins")
}

/// The checker must find what it is there for.
#[test]
fn the_checker_notices_what_must_not_be() {
    let span = |begin, end| Span { begin, end };
    let writes = [(0, 0, 0), (10, 20, 1), (30, 40, 2), (35, 45, 3), (50, 60, 0)];
    let writes = writes.map(|(begin, end, text)| Write { span: span(begin, end), text });
    let writes = Writes::new(&writes);
    let may = |text, begin, end| writes.may_be(Seen { span: span(begin, end), text }).is_ok();
    assert!(may(0, 5, 6) && may(0, 11, 12) && may(1, 11, 12), "before, and beside");
    assert!(!may(0, 21, 22) && !may(1, 5, 6) && !may(9, 5, 6), "older, too early, never");
    assert!(may(2, 48, 49) && may(3, 48, 49), "two writes beside one another have either order");
    assert!(!may(1, 48, 49) && !may(2, 61, 62) && may(0, 61, 62) && may(2, 55, 56));
    assert!(whole(&[Some(1), Some(1)]).is_ok() && whole(&[None, None]).is_ok());
    assert!(whole(&[Some(1), Some(2)]).is_err() && whole(&[Some(1), None, Some(2)]).is_err());
    let run = |begin, end, failed| Execution { span: span(begin, end), failed };
    assert!(once(&mut [run(4, 5, false), run(1, 2, true)]).is_ok());
    assert!(once(&mut [run(1, 2, false), run(4, 5, false)]).is_err(), "it was done");
    assert!(once(&mut [run(1, 4, true), run(2, 5, false)]).is_err(), "two at a time");
    assert_eq!(most_at_once([span(1, 4), span(2, 3), span(4, 5)].iter()), 2);
}
