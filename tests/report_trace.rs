//! The trace that `TraceWriter` writes is what Perfetto wants. These tests do not know where spans come from.

use shardrun::TraceWriter;
use std::io::{self, Write};
use std::time::Duration;

fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

#[test]
fn an_empty_trace_is_a_whole_document() {
    let text = TraceWriter::new(Vec::new()).unwrap().finish().unwrap();
    assert_eq!(String::from_utf8(text).unwrap(), "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n]}\n");
}

#[test]
fn events_are_complete_with_numeric_ids_and_microseconds() {
    let mut trace = TraceWriter::new(Vec::new()).unwrap();
    trace.process_name("p \"q\"").unwrap();
    trace.track_name(7, "worker 7").unwrap();
    trace
        .span(
            7,
            "a\nb",
            "source",
            Duration::from_nanos(1_234_567),
            Duration::from_nanos(89),
            &[("file", "x\\y"), ("n", "1")],
        )
        .unwrap();
    trace.instant(7, "woken", "park", us(5)).unwrap();
    trace.counter("queued", us(6), 3).unwrap();
    let text = String::from_utf8(trace.finish().unwrap()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[",
            "{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"p \\\"q\\\"\"}},",
            "{\"ph\":\"M\",\"pid\":1,\"tid\":7,\"name\":\"thread_name\",\"args\":{\"name\":\"worker 7\"}},",
            "{\"ph\":\"M\",\"pid\":1,\"tid\":7,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":7}},",
            "{\"ph\":\"X\",\"pid\":1,\"tid\":7,\"ts\":1234.567,\"dur\":0.089,\"name\":\"a\\nb\",\"cat\":\"source\",\"args\":{\"file\":\"x\\\\y\",\"n\":\"1\"}},",
            "{\"ph\":\"i\",\"pid\":1,\"tid\":7,\"ts\":5.000,\"s\":\"t\",\"name\":\"woken\",\"cat\":\"park\"},",
            "{\"ph\":\"C\",\"pid\":1,\"tid\":0,\"ts\":6.000,\"name\":\"queued\",\"args\":{\"value\":3}}",
            "]}",
        ]
    );
}

/// An output with room for so many bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.0.min(bytes.len());
        self.0 -= room;
        if room == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(room) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_output_is_an_error_at_every_place() {
    for room in 0..200 {
        let written = TraceWriter::new(Full(room)).and_then(|mut trace| {
            trace.span(1, "a", "b", us(1), us(1), &[])?;
            trace.finish()
        });
        match written {
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::StorageFull),
            Ok(left) => assert!(room - left.0 > 100, "the whole trace was written"),
        }
    }
}
