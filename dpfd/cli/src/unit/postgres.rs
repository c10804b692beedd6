//! PostgreSQL as Debian starts it: `pg_ctlcluster` hands on nothing of the unit's environment, and a file of its own instead.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Home, Unit};

/// Where the files lie: a folder for each version, and in it one for each cluster.
const CLUSTERS: &str = "/etc/postgresql";

/// The line that the service wants, if it has none with this shim.
pub fn wanted(home: &Home, unit: &Unit, shim: &Path) -> Option<String> {
    if !is_one(unit) {
        return None;
    }
    let shim = shim.display().to_string();
    let file = file(unit);
    let there = line(&home.path(&file)).is_some_and(|line| line.contains(&shim));
    (!there).then(|| {
        format!(
            "pg_ctlcluster starts PostgreSQL with the variables of {} and no others; so it has the shim after a restart if \
             this line is there: LD_PRELOAD = '{shim}'",
            file.display()
        )
    })
}

/// What keeps the shim in the service though its drop-in is gone.
pub fn left(home: &Home, unit: &Unit) -> Option<String> {
    if !is_one(unit) {
        return None;
    }
    let of_all = || clusters(home).into_iter().map(|cluster| cluster.join("environment"));
    let files: Vec<PathBuf> = match instance(unit) {
        Some(_) => vec![file(unit)],
        None => of_all().collect(),
    };
    let has_it = |file: &PathBuf| line(&home.path(file)).is_some_and(|line| line.contains("libdp_preload"));
    let found: Vec<String> =
        files.iter().filter(|file| has_it(file)).map(|f| f.display().to_string()).collect();
    (!found.is_empty()).then(|| {
        format!(
            "it has the shim after a restart, too, until the line LD_PRELOAD is taken out of {}",
            found.join(", ")
        )
    })
}

fn is_one(unit: &Unit) -> bool {
    unit.programs().iter().any(|path| path.file_name().is_some_and(|name| name == "pg_ctlcluster"))
}

/// The version and the cluster of `postgresql@15-main.service`; none of a template.
fn instance(unit: &Unit) -> Option<(&str, &str)> {
    unit.name.strip_suffix(".service")?.split_once('@')?.1.split_once('-')
}

fn file(unit: &Unit) -> PathBuf {
    let (version, cluster) = instance(unit).unwrap_or(("VERSION", "CLUSTER"));
    Path::new(CLUSTERS).join(version).join(cluster).join("environment")
}

/// All clusters of all versions, as the service names them.
fn clusters(home: &Home) -> Vec<PathBuf> {
    let below = |folder: PathBuf| {
        let entries = fs::read_dir(home.path(&folder)).into_iter().flatten().flatten();
        entries.map(move |entry| folder.join(entry.file_name()))
    };
    let mut found: Vec<PathBuf> = below(PathBuf::from(CLUSTERS)).flat_map(below).collect();
    found.sort();
    found
}

/// The last line that preloads something.
fn line(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().rfind(|line| line.trim_start().starts_with("LD_PRELOAD")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::text;

    fn unit(name: &str) -> Unit {
        let text = "[Service]\nExecStart=-/usr/bin/pg_ctlcluster --skip-systemctl-redirect %i start\n";
        let assignments = text::assignments(text, Path::new("/usr/lib/systemd/system/postgresql@.service"));
        Unit { name: name.into(), assignments, unread: Vec::new() }
    }

    #[test]
    fn the_line_is_wanted_until_it_is_there_and_told_of_as_long_as_it_is() {
        let tree = std::env::temp_dir().join(format!("dp-postgres-{}", std::process::id()));
        let main = tree.join("etc/postgresql/15/main");
        fs::create_dir_all(&main).unwrap();
        fs::create_dir_all(tree.join("etc/postgresql/15/other")).unwrap();
        let home = Home::new(Some(&tree), false).unwrap();
        let shim = Path::new("/usr/lib/dp/libdp_preload.so");
        let (one, all) = (unit("postgresql@15-main.service"), unit("postgresql@.service"));

        let told = wanted(&home, &one, shim).unwrap();
        assert!(
            told.contains("/etc/postgresql/15/main/environment")
                && told.contains(" LD_PRELOAD = '/usr/lib/dp/")
        );
        assert_eq!((left(&home, &one), left(&home, &all)), (None, None));

        fs::write(main.join("environment"), "# LD_PRELOAD\nLD_PRELOAD = '/usr/lib/dp/libdp_preload.so'\n")
            .unwrap();
        assert_eq!(wanted(&home, &one, shim), None);
        // Of a shim that is elsewhere now.
        assert!(wanted(&home, &one, Path::new("/usr/lib64/dp/libdp_preload.so")).is_some());
        for unit in [&one, &all] {
            let told = left(&home, unit).unwrap();
            assert!(told.ends_with(" /etc/postgresql/15/main/environment"), "{told}");
        }
        assert_eq!(left(&home, &unit("postgresql@15-other.service")), None);

        fs::remove_dir_all(&tree).unwrap();
    }
}
