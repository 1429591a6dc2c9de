//! Arithmetic on paths of a tree: always relative to its root, always with `/`.
//! It does not know which files exist.
#![forbid(unsafe_code)]

/// Where the last `/` stands; the components are short, so a plain loop is the fastest search.
fn slash(path: &str) -> Option<usize> {
    path.bytes().rposition(|byte| byte == b'/')
}

/// The whole path.
pub(crate) fn whole(path: &str) -> &str {
    path
}

/// The last component.
pub(crate) fn name(path: &str) -> &str {
    slash(path).map_or(path, |at| &path[at + 1..])
}

/// The last two components, or the only one.
pub(crate) fn last_two(path: &str) -> &str {
    let Some(last) = slash(path) else { return path };
    slash(&path[..last]).map_or(path, |at| &path[at + 1..])
}

/// What stands before the last component; empty for the root and for what lies in it.
pub(crate) fn parent(path: &str) -> &str {
    slash(path).map_or("", |at| &path[..at])
}

/// The last component without its last extension.
pub(crate) fn stem(path: &str) -> &str {
    let name = name(path);
    name.bytes().rposition(|byte| byte == b'.').map_or(name, |at| &name[..at])
}

/// Whether `directory` is `path` or one of the directories above it; the root is above all.
pub(crate) fn holds(directory: &str, path: &str) -> bool {
    directory.is_empty()
        || (path.starts_with(directory) && (path.len() == directory.len() || path.as_bytes()[directory.len()] == b'/'))
}

/// `directory` and the directories above it, the innermost first, the root last.
pub(crate) fn ancestors(directory: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(directory), |&at| if at.is_empty() { None } else { Some(parent(at)) })
}

/// `relative` seen from `directory`, with `.` and `..` taken away; nothing if it leads out of the tree.
pub(crate) fn join(directory: &str, relative: &str) -> Option<String> {
    let mut path = String::with_capacity(directory.len() + relative.len() + 16);
    path.push_str(directory);
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if path.is_empty() {
                    return None;
                }
                path.truncate(parent(&path).len());
            }
            _ => push(&mut path, part),
        }
    }
    Some(path)
}

/// Adds one more component.
pub(crate) fn push(path: &mut String, part: &str) {
    if !path.is_empty() {
        path.push('/');
    }
    path.push_str(part);
}

/// How many bytes of directories two paths share.
pub(crate) fn shared(one: &str, other: &str) -> usize {
    let mut shared = 0;
    for (at, (a, b)) in one.bytes().zip(other.bytes()).enumerate() {
        if a != b {
            break;
        }
        if a == b'/' {
            shared = at + 1;
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_paths() {
        assert_eq!((name("a/b.c"), parent("a/b.c"), stem("a/b.c")), ("b.c", "a", "b"));
        assert_eq!((name("b"), parent("b"), last_two("a/b/c"), last_two("b")), ("b", "", "b/c", "b"));
        assert_eq!(join("a/b", "../c/./d"), Some("a/c/d".into()));
        assert_eq!((join("a", "../.."), join("", "x")), (None, Some("x".into())));
        assert!(holds("a", "a/b") && holds("", "x") && holds("a", "a") && !holds("a", "ab"));
        assert_eq!(ancestors("a/b").collect::<Vec<_>>(), ["a/b", "a", ""]);
        assert_eq!((shared("a/b/c", "a/b/d"), shared("ab/c", "a/c")), (4, 0));
    }
}
