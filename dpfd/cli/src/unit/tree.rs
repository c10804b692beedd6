//! Paths in the tree of an image, as the system in it would follow them: an absolute link means a place in the tree, and nothing
//! leads out of it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// More links than this are a circle, as for the kernel.
const MOST_LINKS: u32 = 40;

/// Where `inside`, an absolute path of the image, is found from here: without links below `root`. What is not there is what its
/// name says. In a circle of links it stays at the one that was one too many, which cannot be opened.
pub fn resolve(root: &Path, inside: &Path) -> PathBuf {
    let mut left: VecDeque<OsString> = names(inside).into();
    let mut found: Vec<OsString> = Vec::new();
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        if name == ".." {
            // Above the root is the root.
            found.pop();
            continue;
        }
        found.push(name);
        let here = at(root, &found);
        let Ok(target) = fs::read_link(&here) else { continue };
        links += 1;
        if links > MOST_LINKS {
            return here;
        }
        found.pop();
        if target.is_absolute() {
            found.clear();
        }
        for name in names(&target).into_iter().rev() {
            left.push_front(name);
        }
    }
    at(root, &found)
}

fn at(root: &Path, names: &[OsString]) -> PathBuf {
    names.iter().fold(root.to_owned(), |path, name| path.join(name))
}

fn names(path: &Path) -> Vec<OsString> {
    let named = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    named.map(|part| part.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_leads_out_of_the_tree() {
        let root = std::env::temp_dir().join(format!("dp-tree-{}", std::process::id()));
        fs::create_dir_all(root.join("usr/lib/a")).unwrap();
        for (target, link) in [
            ("usr/lib", "lib"),
            ("/usr/lib", "absolute"),
            ("/usr/lib", "usr/deep"),
            ("../../../../../../../../etc", "usr/out"),
            ("/absolute/a", "twice"),
            ("circle", "circle"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        for (inside, found) in [
            ("/usr/lib/a", "usr/lib/a"),
            ("/lib/a", "usr/lib/a"),
            ("/absolute/a", "usr/lib/a"),
            ("/usr/deep/a", "usr/lib/a"),
            ("/absolute/../b", "usr/b"),
            ("/usr/out/passwd", "etc/passwd"),
            ("/twice/x", "usr/lib/a/x"),
            ("/../../x", "x"),
            ("/no/such/../x", "no/x"),
            ("/", ""),
        ] {
            assert_eq!(resolve(&root, Path::new(inside)), root.join(found), "{inside}");
        }
        let circle = resolve(&root, Path::new("/circle/x"));
        let unreadable = fs::metadata(&circle).is_err();
        fs::remove_dir_all(&root).unwrap();
        assert!(circle.starts_with(&root) && unreadable, "{circle:?}");
    }
}
