//! Writes Chrome's trace format, which Perfetto and `chrome://tracing` open.
//! It does not know what the spans are, nor where their times come from.
#![forbid(unsafe_code)]

use super::escape::Json;
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

/// The one process that a trace shows; the format wants a number.
const PROCESS: u32 = 1;

/// Writes a trace event by event, so that a long trace needs no memory.
///
/// Spans are *complete events* (one event with a start and a length), tracks and the process have numeric ids, times are offsets
/// from a zero of the caller's choice, such as `Runtime::now`. Wrap the output in a [`std::io::BufWriter`]. Call
/// [`finish`](Self::finish) at the end: a trace without it lacks its closing bracket.
///
/// ```
/// use shardrun::TraceWriter;
/// use std::time::Duration;
///
/// let mut trace = TraceWriter::new(Vec::new())?;
/// trace.process_name("my build")?;
/// trace.track_name(0, "worker 0")?;
/// trace.span(0, "compile", "stage", Duration::from_micros(3), Duration::from_nanos(1500), &[("file", "a.rs")])?;
/// let text = String::from_utf8(trace.finish()?).unwrap();
/// assert!(text.contains(r#""ph":"X","pid":1,"tid":0,"ts":3.000,"dur":1.500"#));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TraceWriter<W: Write> {
    out: W,
    events: u64,
}

impl<W: Write> TraceWriter<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// What the output says.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        Ok(TraceWriter { out, events: 0 })
    }

    /// Names the whole.
    ///
    /// # Errors
    /// What the output says.
    pub fn process_name(&mut self, name: &str) -> io::Result<()> {
        self.event(format_args!(
            "\"ph\":\"M\",\"pid\":{PROCESS},\"tid\":0,\"name\":\"process_name\",\"args\":{{\"name\":{}}}",
            Json(name)
        ))
    }

    /// Names a track; tracks are shown in the order of their numbers.
    ///
    /// # Errors
    /// What the output says.
    pub fn track_name(&mut self, track: u32, name: &str) -> io::Result<()> {
        self.event(format_args!(
            "\"ph\":\"M\",\"pid\":{PROCESS},\"tid\":{track},\"name\":\"thread_name\",\"args\":{{\"name\":{}}}",
            Json(name)
        ))?;
        self.event(format_args!(
            "\"ph\":\"M\",\"pid\":{PROCESS},\"tid\":{track},\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{track}}}"
        ))
    }

    /// Something that lasted: on `track`, from `start` on for `length`. `category` groups spans for filtering; `arguments` are
    /// shown when the span is selected.
    ///
    /// # Errors
    /// What the output says.
    pub fn span(
        &mut self,
        track: u32,
        name: &str,
        category: &str,
        start: Duration,
        length: Duration,
        arguments: &[(&str, &str)],
    ) -> io::Result<()> {
        self.event(format_args!(
            "\"ph\":\"X\",\"pid\":{PROCESS},\"tid\":{track},\"ts\":{},\"dur\":{},\"name\":{},\"cat\":{},\"args\":{}",
            Micros(start),
            Micros(length),
            Json(name),
            Json(category),
            Arguments(arguments)
        ))
    }

    /// Something that happened at one moment on `track`.
    ///
    /// # Errors
    /// What the output says.
    pub fn instant(&mut self, track: u32, name: &str, category: &str, at: Duration) -> io::Result<()> {
        self.event(format_args!(
            "\"ph\":\"i\",\"pid\":{PROCESS},\"tid\":{track},\"ts\":{},\"s\":\"t\",\"name\":{},\"cat\":{}",
            Micros(at),
            Json(name),
            Json(category)
        ))
    }

    /// A number that changes over time; the numbers of one `name` make one graph.
    ///
    /// # Errors
    /// What the output says.
    pub fn counter(&mut self, name: &str, at: Duration, value: u64) -> io::Result<()> {
        self.event(format_args!(
            "\"ph\":\"C\",\"pid\":{PROCESS},\"tid\":0,\"ts\":{},\"name\":{},\"args\":{{\"value\":{value}}}",
            Micros(at),
            Json(name)
        ))
    }

    /// Ends the trace, flushes, and gives the output back.
    ///
    /// # Errors
    /// What the output says.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn event(&mut self, fields: fmt::Arguments<'_>) -> io::Result<()> {
        let comma = if self.events == 0 { "" } else { "," };
        self.events += 1;
        write!(self.out, "{comma}\n{{{fields}}}")
    }
}

/// Microseconds with nanoseconds behind the point, as the format wants them.
struct Micros(Duration);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        write!(f, "{}.{:03}", nanos / 1000, nanos % 1000)
    }
}

struct Arguments<'a>(&'a [(&'a str, &'a str)]);

impl fmt::Display for Arguments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (at, (name, value)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{}:{}", Json(name), Json(value))?;
        }
        f.write_str("}")
    }
}
