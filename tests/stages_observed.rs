//! What an observer hears of the stages: each seal and each generation that is left behind, once, when nothing is half changed.

#[path = "support/stages_host.rs"]
mod host;

use host::{Act, Files};
use shardrun::{Driver, Event, Observer, Request, Runtime, Stage, Stages};
use std::sync::{Arc, Mutex};

/// Writes down what it hears of stages, and asks the scheduler back.
#[derive(Default)]
struct Listener {
    heard: Mutex<Vec<String>>,
    stages: Mutex<Option<Stages<Files>>>,
}

impl Observer for Listener {
    fn event(&self, event: &Event) {
        let said = match event {
            Event::StageSealed { stage, generation, failed, .. } => {
                format!("{stage} {generation}{}", if *failed { " failed" } else { "" })
            }
            Event::Superseded { generation, .. } => format!("{generation} is over"),
            _ => return,
        };
        self.heard.lock().unwrap().push(said);
        // Nothing is held: it may use what it is told of.
        let stages = self.stages.lock().unwrap().clone().expect("it is set before anything is asked for");
        assert!(stages.generation(&"a".into()).is_some());
        panic!("a panic of the observer stays where it is");
    }

    fn every_nth_job(&self) -> u32 {
        0
    }
}

#[test]
fn an_observer_hears_of_seals_failures_and_superseded_generations() {
    let host = Files::with([("a", "one")]);
    let listener = Arc::new(Listener::default());
    let runtime = Runtime::builder().driver(Driver::Inline).observer(listener.clone()).build().unwrap();
    let stages = Stages::new(&runtime, host.clone());
    *listener.stages.lock().unwrap() = Some(stages.clone());
    let heard = || std::mem::take(&mut *listener.heard.lock().unwrap());
    std::panic::set_hook(Box::new(|_| {}));
    assert!(stages.submit_request(Request::artifact("a".into(), 1)).wait().is_ok());
    assert_eq!(heard(), ["source 1", "analysis 1", "artifact 1"]);
    host.hook(|_, at| if at.stage == Stage::Analysis { Act::Fail("asked for") } else { Act::Go });
    let edited = stages.submit_request(Request::artifact("a".into(), 1).text("two".into()));
    assert_eq!(heard(), ["1 is over"]);
    assert!(edited.wait().is_err());
    assert_eq!(heard(), ["source 2", "analysis 2 failed"]);
    stages.invalidate(&"a".into());
    assert_eq!(heard(), ["2 is over"]);
    let _ = std::panic::take_hook();
    listener.stages.lock().unwrap().take();
}
