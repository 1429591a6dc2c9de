//! The core of a small language server on `stages`: files that import one another, edits, diagnostics that stay right, and a file that
//! goes. It does not know a protocol nor a disk.
//!
//! `cargo run --example language_server`

use shardrun::{Dependencies, Host, Interrupt, Priority, Request, Runtime, StageCx, Stages};
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

type File = &'static str;

/// Why a stage of this language ends without a value: only since nobody wants it any more.
#[derive(Debug)]
struct Stopped(Interrupt);

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Stopped {}

impl From<Interrupt> for Stopped {
    fn from(interrupt: Interrupt) -> Self {
        Self(interrupt)
    }
}

/// A file, taken apart: lines of `import FILE`, `def NAME` and `use NAME`.
#[derive(Default)]
struct Parsed {
    imports: Vec<String>,
    defines: Vec<String>,
    uses: Vec<String>,
}

struct Language(HashMap<File, &'static str>);

impl Host for Language {
    type File = String;
    type Text = Arc<str>;
    type Source = Parsed;
    /// What others may use of a file.
    type Analysis = Vec<String>;
    /// Its diagnostics.
    type Artifact = Vec<String>;
    type Profile = ();
    type Error = Stopped;

    fn load(&self, file: &String) -> Result<Option<Arc<str>>, Stopped> {
        Ok(self.0.get(file.as_str()).map(|&text| text.into()))
    }

    fn source(&self, cx: &StageCx<'_, Self>, text: Arc<str>) -> Result<Parsed, Stopped> {
        let mut parsed = Parsed::default();
        for line in text.lines() {
            // An edit may have come meanwhile.
            cx.check()?;
            match line.split_once(' ') {
                Some(("import", file)) => parsed.imports.push(file.to_owned()),
                Some(("def", name)) => parsed.defines.push(name.to_owned()),
                Some(("use", name)) => parsed.uses.push(name.to_owned()),
                _ => {}
            }
        }
        Ok(parsed)
    }

    /// The Artifact of a file waits for the Analysis of what it imports.
    fn dependencies(&self, _: &StageCx<'_, Self>, source: &Parsed) -> Dependencies<String> {
        Dependencies::none().with_blockers(source.imports.iter().cloned())
    }

    fn analysis(&self, _: &StageCx<'_, Self>, source: &Parsed) -> Result<Vec<String>, Stopped> {
        Ok(source.defines.clone())
    }

    fn artifact(
        &self,
        cx: &StageCx<'_, Self>,
        (): &(),
        source: &Parsed,
        own: &Vec<String>,
    ) -> Result<Vec<String>, Stopped> {
        let Some(stages) = cx.scheduler() else { return Err(Stopped(Interrupt::Shutdown)) };
        // They are there: this stage was not begun before.
        let imported: Vec<_> = source.imports.iter().filter_map(|file| stages.try_get_analysis(file)).collect();
        let known = |name: &String| own.contains(name) || imported.iter().any(|names| names.contains(name));
        let unknown = source.uses.iter().filter(|name| !known(name));
        Ok(unknown.map(|name| format!("{}: nobody defines `{name}`", cx.file())).collect())
    }
}

/// A file has a new text: what depends on it is made anew when it is asked for next. How far that goes is the host's business:
/// here only Analysis is seen by others, and it depends on the file alone.
fn edit(stages: &Stages<Language>, file: &str, text: &str) {
    stages.set_text(file.to_owned(), text.into());
    for dependent in stages.dependents(&file.to_owned()) {
        stages.invalidate(&dependent);
    }
}

fn show(stages: &Stages<Language>, file: &str) {
    let asked = Request::artifact(file.to_owned(), ()).priority(Priority::Critical);
    match stages.submit_request(asked).wait() {
        Ok(diagnostics) if diagnostics.is_empty() => println!("{file}: all is well"),
        Ok(diagnostics) => println!("{}", diagnostics.join("\n")),
        Err(why) => println!("{file}: {why}"),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().build()?;
    let stored = HashMap::from([("main", "import util\nuse open\nuse close"), ("util", "def open")]);
    let stages = Stages::new(&runtime, Language(stored));
    show(&stages, "main");

    edit(&stages, "util", "def open\ndef close");
    show(&stages, "main");

    // A removed file has no dependents any more, so they are asked for first.
    let util = "util".to_owned();
    let dependents = stages.dependents(&util);
    stages.remove(&util);
    for dependent in &dependents {
        stages.invalidate(dependent);
    }
    show(&stages, "main"); // The stored text of `util` counts again.
    show(&stages, "nobody");
    Ok(())
}
