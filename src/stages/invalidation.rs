//! Whether a change of a file's exports concerns a file that depends on it: the two tiers that need no look at either file.
//! It does not know what a name is, nor what becomes of the answer.
#![forbid(unsafe_code)]

/// How a file imports another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Import<'a, N> {
    /// For its values: whatever changes there may change what this file does.
    Runtime,
    /// For its types alone, which leave nothing behind but where a macro looks at them: at these names.
    TypesOnly {
        /// The names of the imported file that macros of the importing one consume.
        consumed: &'a [N],
    },
}

/// What a change means to a dependent file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalidation {
    /// It may be concerned: invalidate it, or look closer.
    Invalidate,
    /// It is not.
    Skip,
}

/// Decides whether a file that depends on a changed one has to be invalidated. Pure: it looks at its arguments alone.
///
/// `changed` are the exported names whose signatures have changed; `None` if signatures are not known. `import` is how the dependent
/// imports the file; `None` if it is registered as a dependent and no import of it is found.
///
/// What is left to the caller is the third tier: a closer look at those that are to be invalidated.
///
/// ```
/// use shardrun::{Import, Invalidation, decide_invalidation};
///
/// let types = Import::TypesOnly { consumed: &["Props"] };
/// assert_eq!(decide_invalidation(Some(&["helper"]), Some(&types)), Invalidation::Skip);
/// assert_eq!(decide_invalidation(Some(&["Props"]), Some(&types)), Invalidation::Invalidate);
/// assert_eq!(decide_invalidation(None, Some(&types)), Invalidation::Invalidate);
/// ```
pub fn decide_invalidation<N: PartialEq>(changed: Option<&[N]>, import: Option<&Import<'_, N>>) -> Invalidation {
    let concerned = match (changed, import) {
        // Nothing is known of the exports.
        (None, _) => true,
        (Some([]), _) => false,
        // It depends on the file in some way that cannot be seen.
        (Some(_), None) => true,
        (Some(_), Some(Import::Runtime)) => true,
        (Some(changed), Some(Import::TypesOnly { consumed })) => changed.iter().any(|name| consumed.contains(name)),
    };
    if concerned { Invalidation::Invalidate } else { Invalidation::Skip }
}
