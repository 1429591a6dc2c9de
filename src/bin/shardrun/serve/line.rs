//! What one client has open: its requests by name, and for each root the line of those that wait for their turn there.
//! It does not know how requests are answered.
#![forbid(unsafe_code)]

use super::call::Call;
use super::daemon::Key;
use super::rpc::Id;
use shardrun::LaneTicket;
use std::collections::{HashMap, VecDeque};

/// A request that is not answered yet.
pub(super) struct Pending {
    pub(super) key: Key,
    /// Its job's; nothing as long as it waits in its line.
    pub(super) ticket: Option<LaneTicket>,
    /// Whether the daemon's end cancels it even if it runs.
    pub(super) long: bool,
}

/// The requests of a client for one root.
#[derive(Default)]
pub(super) struct Line {
    /// How many are queued or run in the lanes.
    running: u32,
    waiting: VecDeque<(Id, Call)>,
    /// The last that writes: later ones are not begun before it is over.
    last_write: Option<LaneTicket>,
    /// Joins others' passes, and is not answered yet. Should one of those be cancelled it is submitted once more: so nothing that is to
    /// see it is submitted before its answer.
    joining: Option<Id>,
}

/// What a client has open.
#[derive(Default)]
pub(super) struct Open {
    pub(super) pending: HashMap<Id, Pending>,
    lines: HashMap<Key, Line>,
    /// Nothing more will be heard of the client.
    pub(super) ended: bool,
    /// Nobody reads the answers.
    pub(super) gone: bool,
}

impl Open {
    /// A request comes to the end of its line.
    pub(super) fn push(&mut self, id: Id, key: &Key, call: Call) {
        let pending = Pending { key: key.clone(), ticket: None, long: call.is_long() };
        self.pending.insert(id.clone(), pending);
        self.lines.entry(key.clone()).or_default().waiting.push_back((id, call));
    }

    /// The next request whose turn it is, if fewer than `window` run; and what it is to wait for.
    pub(super) fn next(&mut self, key: &Key, window: u32) -> Option<(Id, Call, Option<LaneTicket>)> {
        let line = self.lines.get_mut(key).filter(|line| line.running < window)?;
        let held = line.joining.is_some();
        let next = line.waiting.iter().position(|(_, call)| !held || call.is_at_once())?;
        let (id, call) = line.waiting.remove(next)?;
        if call.joins() {
            line.joining = Some(id.clone());
        }
        line.running += 1;
        Some((id, call, line.last_write.clone()))
    }

    /// The request that was next has been submitted.
    pub(super) fn submitted(&mut self, id: &Id, key: &Key, ticket: Option<&LaneTicket>, writes: bool) {
        if let Some(pending) = self.pending.get_mut(id) {
            pending.ticket = ticket.cloned();
        }
        if let (Some(line), Some(ticket), true) = (self.lines.get_mut(key), ticket, writes) {
            line.last_write = Some(ticket.clone());
        }
    }

    /// A request that was submitted is answered.
    pub(super) fn answered(&mut self, id: &Id, key: &Key) {
        self.pending.remove(id);
        if let Some(line) = self.lines.get_mut(key) {
            line.running -= 1;
            line.joining.take_if(|joining| joining == id);
            if line.running == 0 && line.waiting.is_empty() {
                self.lines.remove(key);
            }
        }
    }

    /// Takes a request out that waits in its line. If it was submitted, its ticket; nothing if there is no such request.
    pub(super) fn withdraw(&mut self, id: &Id) -> Option<Option<LaneTicket>> {
        let pending = self.pending.get(id)?;
        if pending.ticket.is_some() {
            return Some(pending.ticket.clone());
        }
        let key = pending.key.clone();
        let line = self.lines.get_mut(&key)?;
        let before = line.waiting.len();
        line.waiting.retain(|(other, _)| other != id);
        if line.waiting.len() == before {
            // It was refused, and its answer is on the way.
            return None;
        }
        if line.running == 0 && line.waiting.is_empty() {
            self.lines.remove(&key);
        }
        self.pending.remove(id);
        Some(None)
    }

    /// Takes all requests out that wait in lines.
    pub(super) fn withdraw_all(&mut self) -> Vec<Id> {
        let waiting: Vec<Id> =
            self.lines.values_mut().flat_map(|line| line.waiting.drain(..)).map(|(id, _)| id).collect();
        self.lines.retain(|_, line| line.running > 0);
        for id in &waiting {
            self.pending.remove(id);
        }
        waiting
    }

    /// The tickets of what was submitted, or of what is long among it.
    pub(super) fn tickets(&self, long: bool) -> Vec<LaneTicket> {
        let wanted = self.pending.values().filter(|pending| pending.long || !long);
        wanted.filter_map(|pending| pending.ticket.clone()).collect()
    }
}
