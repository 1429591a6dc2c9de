//! The hashes of which fingerprints are made: of one file with what it imports, and of a group of files that reach one another with
//! what the group reaches.
//! It does not know which files belong together.
#![forbid(unsafe_code)]

/// A hash by blake3.
pub(crate) type Hash = [u8; 32];

/// Of a file alone: its path, its content (nothing if it could not be read), and the paths of the files that it imports.
pub(crate) fn digest(path: &str, content: Option<&Hash>, imports: &mut Vec<&str>) -> Hash {
    imports.sort_unstable();
    let length = 64 + path.len() + imports.iter().map(|import| import.len() + 8).sum::<usize>();
    let mut bytes = Vec::with_capacity(length);
    bytes.push(u8::from(content.is_some()));
    bytes.extend_from_slice(content.unwrap_or(&[0; 32]));
    for text in std::iter::once(&path).chain(imports.iter()) {
        bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    *blake3::hash(&bytes).as_bytes()
}

/// Of files that all reach one another, or of one file: their digests, and the fingerprints of what they import besides. The order
/// in which they are given does not matter.
pub(crate) fn fingerprint(Group { members, beyond, bytes }: &mut Group) -> Hash {
    members.sort_unstable();
    beyond.sort_unstable();
    beyond.dedup();
    bytes.clear();
    members.iter().chain(&*beyond).for_each(|hash| bytes.extend_from_slice(hash));
    if members.len() > 1 {
        // Behind all else, so that one file which imports three fills blocks of the hash exactly.
        bytes.extend_from_slice(&(members.len() as u64).to_le_bytes());
    }
    *blake3::hash(bytes).as_bytes()
}

/// What a fingerprint is made of. One is used for many, so that each costs no allocation.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) members: Vec<Hash>,
    pub(crate) beyond: Vec<Hash>,
    bytes: Vec<u8>,
}

/// Of a whole tree: the paths of its files and their fingerprints, in order.
pub(crate) fn tree<'a>(files: impl Iterator<Item = (&'a str, &'a Hash)>) -> Hash {
    let mut hasher = blake3::Hasher::new();
    let mut bytes = Vec::with_capacity(72 << 10);
    for (path, fingerprint) in files {
        bytes.extend_from_slice(&(path.len() as u64).to_le_bytes());
        bytes.extend_from_slice(path.as_bytes());
        bytes.extend_from_slice(fingerprint);
        if bytes.len() > 64 << 10 {
            hasher.update(&bytes);
            bytes.clear();
        }
    }
    hasher.update(&bytes);
    *hasher.finalize().as_bytes()
}
