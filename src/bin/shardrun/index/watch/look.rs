//! What has become of the paths that were touched: which files may have changed, which have come, which have gone.
//! It does not know what is in a file.
#![forbid(unsafe_code)]

use super::super::walk::{Found, Places, walk};
use super::eyes::{Eyes, Told};
use super::model::Model;
use crate::cli::IndexArgs;
use crate::console::Console;
use crate::work::read::Stamp;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// More places than this are not looked for one by one: the whole tree is walked.
const PLACES_MAX: usize = 256;

/// What a burst of changes comes to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Places of files whose text may be another.
    pub(crate) touched: BTreeSet<u32>,
    pub(crate) gone: BTreeSet<u32>,
    pub(crate) come: BTreeSet<PathBuf>,
}

/// Looks at what was told.
pub(crate) struct Look<'a> {
    pub(crate) args: &'a IndexArgs,
    pub(crate) model: &'a Model,
}

impl Look<'_> {
    /// Whatever is not told by path is walked for: all of the tree after something was missed or an ignore file changed, else new
    /// paths and directories. Directories that come are watched before they are walked for the last time, so nothing falls
    /// between.
    ///
    /// Where links are followed a file or directory may have several names. The system tells of a change under one of them, and
    /// drops the one watch that a directory has when any of its names goes: so all of the tree is walked, and watched anew if a
    /// directory was touched.
    ///
    /// # Errors
    /// Why directories cannot be watched any more.
    pub(crate) fn at(&self, told: Told, eyes: &mut Eyes, console: &mut Console) -> Result<Seen, String> {
        let mut seen = Seen::default();
        let mut places = Places::new();
        let mut all = told.missed || self.args.follow;
        for path in told.touched {
            all |= is_ignore_file(&path);
            console.forget(&path);
            let directory = eyes.forget(&path);
            if directory && self.args.follow {
                eyes.forget(&self.args.dir);
            }
            let data = if self.args.follow { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
            match (self.model.at(&path), data) {
                (Some(place), Ok(data)) if data.is_file() && !directory => drop(seen.touched.insert(place)),
                (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => seen.gone.extend(self.model.below(&path)),
                _ => drop(places.insert(path)),
            }
        }
        all |= places.len() > PLACES_MAX;
        if all {
            places = [self.args.dir.clone()].into();
        }
        while !places.is_empty() && self.walk(&places, all, &mut seen, eyes, console)? {}
        seen.touched.retain(|place| !seen.gone.contains(place));
        Ok(seen)
    }

    /// One walk for what is at `places`. Whether it must be repeated, since directories were found that were not watched.
    fn walk(
        &self,
        places: &Places,
        all: bool,
        seen: &mut Seen,
        eyes: &mut Eyes,
        console: &mut Console,
    ) -> Result<bool, String> {
        let mut there = BTreeSet::new();
        (seen.come, seen.gone) = (BTreeSet::new(), if all { BTreeSet::new() } else { std::mem::take(&mut seen.gone) });
        let mut again = Ok(false);
        let bound = (!all).then(|| places.clone());
        walk(self.args, bound, console, |found, _| match found {
            Found::Directory(path) => match eyes.watch(&path) {
                Ok(new) => again = again.clone().map(|again| again || new),
                Err(error) => again = Err(error),
            },
            Found::File(path) => match self.model.at(&path) {
                Some(place) => {
                    there.insert(place);
                    if !self.stands(place, &path) {
                        seen.touched.insert(place);
                    }
                }
                None => drop(seen.come.insert(path)),
            },
        });
        let again = again?;
        let known = places.iter().flat_map(|path| self.model.below(path));
        seen.gone.extend(known.filter(|place| !there.contains(place)));
        seen.gone.retain(|place| !there.contains(place));
        Ok(again)
    }

    /// Whether the file is surely what it was when it was read.
    fn stands(&self, place: u32, path: &Path) -> bool {
        let now = fs::metadata(path).map(|data| Stamp::of(&data));
        let then = self.model.node(place).source.as_ref().and_then(|source| source.stamp);
        matches!((then, now), (Some(then), Ok(now)) if then.stands(now))
    }
}

/// Whether the file says what is to be left out. `.gitignore` does so only where there is a `.git`.
fn is_ignore_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == ".gitignore" || name == ".ignore" || name == ".git")
}
