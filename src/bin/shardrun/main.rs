//! The command-line tool. It knows the library by its public face alone.
#![allow(dead_code, unused_imports)] // the work on a file stands before the host that calls it

mod work;

fn main() {}
