//! Reads what callgrind has counted per instruction, and asks objdump which of those instructions lock a cache line.
//! It does not know which operation was run.

use std::collections::{HashMap, HashSet};
use std::process::Command;

/// Instructions that were carried out, and those among them that lock a line or drain the store buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub instructions: u64,
    pub locked: u64,
}

/// Sums over all functions.
pub fn total(by_function: &HashMap<String, Totals>) -> Totals {
    by_function.values().fold(Totals::default(), |sum, one| Totals {
        instructions: sum.instructions + one.instructions,
        locked: sum.locked + one.locked,
    })
}

/// Sums a file written with `--dump-instr=yes`, by function.
pub fn totals(path: &str) -> HashMap<String, Totals> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut locking = Locking::default();
    let mut sums: HashMap<String, Totals> = HashMap::new();
    let (mut names, mut functions) = (HashMap::new(), HashMap::new());
    let (mut object, mut address, mut after_calls) = (String::new(), 0u64, false);
    let mut function = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("ob=") {
            object = named(&mut names, name);
        } else if let Some(name) = line.strip_prefix("cob=") {
            // A name may stand in full only here, at the object that is called.
            named(&mut names, name);
        } else if let Some(name) = line.strip_prefix("fn=") {
            function = named(&mut functions, name);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            named(&mut functions, name);
        } else if line.starts_with("calls=") {
            after_calls = true;
        } else if line.starts_with(['0', '+', '-', '*']) {
            let mut words = line.split(' ');
            address = position(words.next().unwrap_or("*"), address);
            let cost: u64 = words.nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
            // The line after `calls=` carries what the callee cost, which is counted where it was spent.
            if !std::mem::take(&mut after_calls) {
                let sum = sums.entry(function.clone()).or_default();
                sum.instructions += cost;
                if locking.of(&object).contains(&address) {
                    sum.locked += cost;
                }
            }
        }
    }
    sums
}

/// Resolves callgrind's `(id) name` at its first place and `(id)` later.
fn named(names: &mut HashMap<String, String>, word: &str) -> String {
    match word.split_once(' ') {
        Some((id, name)) => {
            names.insert(id.to_string(), name.to_string());
            name.to_string()
        }
        None => names.get(word).cloned().unwrap_or_default(),
    }
}

/// Resolves callgrind's relative addresses.
fn position(word: &str, before: u64) -> u64 {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    match word.as_bytes()[0] {
        b'*' => before,
        b'+' => before + number(&word[1..]).expect("an offset"),
        b'-' => before - number(&word[1..]).expect("an offset"),
        _ => number(word).expect("an address"),
    }
}

/// Per object file, the addresses of its locking instructions.
#[derive(Default)]
struct Locking(HashMap<String, HashSet<u64>>);

impl Locking {
    fn of(&mut self, object: &str) -> &HashSet<u64> {
        if !self.0.contains_key(object) {
            self.0.insert(object.to_string(), disassembled(object));
        }
        &self.0[object]
    }
}

/// The lock prefix, an exchange with memory (which locks by itself), and the full fence. Empty where objdump is missing.
fn disassembled(object: &str) -> HashSet<u64> {
    if !object.starts_with('/') {
        return HashSet::new();
    }
    let output = Command::new("objdump").args(["-d", "--no-show-raw-insn", object]).output();
    let listing = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let locking = |line: &str| {
        let (address, code) = line.trim().split_once(':')?;
        let code = code.trim();
        let locks =
            code.starts_with("lock ") || code.starts_with("mfence") || code.starts_with("xchg ") && code.contains('(');
        locks.then(|| u64::from_str_radix(address, 16).ok()).flatten()
    };
    listing.lines().filter_map(locking).collect()
}
