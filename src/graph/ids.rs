//! Dense numbers for what a plan holds, and the limits that a host may write as any number.
//! It does not know what is planned.
#![forbid(unsafe_code)]

use std::fmt;

/// A task of one [`Plan`](crate::Plan): a dense number in order of insertion, the first is 0.
///
/// It means nothing outside the plan whose builder gave it out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub(crate) u32);

impl TaskId {
    /// The task's place in order of insertion.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// A named pool of one [`Plan`](crate::Plan), a dense number in order of declaration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolId(pub(crate) u16);

impl PoolId {
    /// The pool's place in order of declaration.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A capacity as a host wrote it, checked when the plan is built: it must be a whole number of at least one.
///
/// Numbers of any kind turn into it, so that what a configuration file says reaches the check unrounded.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Limit {
    /// A whole number, perhaps negative.
    Whole(i128),
    /// Any other number, perhaps not a number at all.
    Number(f64),
}

impl Limit {
    /// The limit as a count, if it is a whole number from one to `u32::MAX`.
    pub(crate) fn count(self) -> Option<u32> {
        let whole = match self {
            Limit::Whole(n) => n,
            Limit::Number(n) if n.is_finite() && n.fract() == 0.0 => n as i128,
            Limit::Number(_) => return None,
        };
        u32::try_from(whole).ok().filter(|n| *n > 0)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Whole(n) => write!(f, "{n}"),
            Limit::Number(n) => write!(f, "{n}"),
        }
    }
}

macro_rules! whole {
    ($($number:ty),*) => {$(
        impl From<$number> for Limit {
            fn from(n: $number) -> Self {
                Limit::Whole(n as i128)
            }
        }
    )*};
}
whole!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

impl From<f64> for Limit {
    fn from(n: f64) -> Self {
        Limit::Number(n)
    }
}
